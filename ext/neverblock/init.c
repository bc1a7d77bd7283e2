/* init.c - what the shared object defines. Uses ruby.h. Only calls the Init of each room. */
#include "delayd/delayd_ruby.h"
#include "drivers/mysql_call.h"
#include "drivers/net_http.h"
#include "drivers/net_http_write.h"
#include "drivers/sqlite_free.h"
#include "hooks/hooks.h"
#include "loop/blocking.h"
#include "loop/resume_chain.h"
#include "loop/chaos.h"
#include "loop/guest.h"
#include "loop/last_status.h"
#include "loop/profile.h"
#include "server/server.h"

RUBY_FUNC_EXPORTED void Init_neverblock(void)
{
    VALUE mNB = rb_define_module("NB");
    Init_nb_loop(mNB);
    Init_nb_fork();
    Init_nb_last_status();
    Init_nb_chaos();
    nb_resume_chain_init();
    Init_nb_blocking();
    Init_nb_profile();
    Init_nb_guest(rb_cNBScheduler);
    Init_nb_hooks_io(rb_cNBScheduler);
    Init_nb_hooks_io_wait(rb_cNBScheduler);
    Init_nb_hooks_select(rb_cNBScheduler);
    Init_nb_hooks_time(rb_cNBScheduler);
    Init_nb_hooks_timeout(rb_cNBScheduler);
    Init_nb_hooks_section(rb_cNBScheduler);
    Init_nb_hooks_block(rb_cNBScheduler);
    Init_nb_hooks_early_unblock();
    Init_nb_hooks_mutex();
    Init_nb_hooks_held_mutexes();
    Init_nb_hooks_fiber_blocking();
    Init_nb_hooks_matches(rb_cNBScheduler);
    Init_nb_hooks_process(rb_cNBScheduler);
    Init_nb_hooks_resolve(rb_cNBScheduler);
    Init_nb_hooks_fiber(rb_cNBScheduler);
    Init_nb_hooks_idle(rb_cNBScheduler);
    Init_nb_hooks_fiber_interrupt(rb_cNBScheduler);
    Init_nb_hooks_transfer(rb_cNBScheduler);
    Init_nb_hooks_operation(rb_cNBScheduler);
    Init_nb_hooks_job();
    Init_nb_hooks_counted();
    Init_nb_hooks_c_methods();
    Init_nb_hooks_mode();
    Init_nb_hooks_joined();
    Init_nb_hooks_autoload();
    Init_nb_hooks_report(rb_cNBScheduler);
    Init_nb_delayd(mNB);
    Init_nb_server(mNB);
    Init_nb_mysql_call(mNB);
    Init_nb_net_http(mNB);
    Init_nb_net_http_write(mNB);
    Init_nb_sqlite_free(mNB);
}
