# frozen_string_literal: true

# Builds neverblock.so from every room below this folder. Options by environment:
# NB_SANITIZE=1 adds ASan and UBSan, NB_CHAOS=1 the faults of loop/chaos.h, NB_DEV=1 turns warnings
# into errors. NB_PORTABLE=1 leaves out what only Linux has, to test how other systems do it.
require "mkmf"

ROOMS = Dir.children(__dir__).select { |name| File.directory?(File.join(__dir__, name)) }.sort

$VPATH.concat(ROOMS.map { |room| "$(srcdir)/#{room}" }) # rubocop:disable Style/GlobalVars
$srcs = ["init.c", *ROOMS.flat_map { |room| Dir[File.join(__dir__, room, "*.c")] }] # rubocop:disable Style/GlobalVars
  .map { |path| File.basename(path) }
$INCFLAGS << " -I$(srcdir)" # rubocop:disable Style/GlobalVars
# -fno-strict-aliasing is Ruby's own setting; hidden symbols keep our names out of other libraries.
append_cflags(%w[-std=gnu11 -O3 -Wall -Wextra -Wno-unused-parameter])
append_cflags(%w[-Wno-suggest-attribute=noreturn -fvisibility=hidden])
append_cflags("-Werror") if ENV["NB_DEV"]
append_cppflags("-D_GNU_SOURCE")
append_cppflags("-DNB_CHAOS") if ENV["NB_CHAOS"]
if ENV["NB_SANITIZE"]
  # No redzones on stacks: ASan does not know those of fibers, which exceptions leave by longjmp.
  append_cflags("-fsanitize=address,undefined -fno-omit-frame-pointer -g -O1 --param asan-stack=0")
  # Ruby's exceptions leave frames of fiber stacks by longjmp, where ASan does not see it.
  append_cflags("--param=asan-stack=0")
  append_ldflags(%w[-fsanitize=address,undefined])
end

if ENV["NB_PORTABLE"]
  append_cppflags(%w[-U__linux__ -DNB_PORTABLE])
else
  # A name of our own: Ruby's config.h may have HAVE_SYS_EPOLL_H.
  append_cppflags("-DNB_EPOLL") if have_header("sys/epoll.h")
  have_header("linux/filter.h")
  have_func("epoll_pwait2", "sys/epoll.h")
  have_func("preadv2", "sys/uio.h")
  have_func("pthread_condattr_setclock", %w[pthread.h time.h])
end
append_cppflags("-DNB_KQUEUE") if have_header("sys/event.h") && have_func("kqueue", "sys/event.h")
have_func("rb_fiber_new_storage", "ruby.h")
have_func("rb_io_timeout", "ruby/io.h")
have_func("rb_io_closed_p", "ruby/io.h")
have_func("rb_fiber_scheduler_blocking_operation_wait", "ruby/fiber/scheduler.h")
have_func("rb_postponed_job_trigger", "ruby/debug.h")
have_func("rb_internal_thread_add_event_hook", "ruby/thread.h")
have_func("rb_internal_thread_specific_get", "ruby/thread.h")
have_library("pthread")
have_func("pthread_getcpuclockid", %w[pthread.h time.h])

create_makefile("neverblock/neverblock")

# A changed header rebuilds everything: mkmf knows only those beside extconf.rb.
headers = Dir[File.join(__dir__, "*", "*.h")]
File.write("Makefile", "\n$(OBJS): #{headers.join(" ")}\n", mode: "a")
