/* virtual.c - a clock for tests. Uses ruby.h. Read after: virtual.h. */
#include "loop/virtual.h"
#include "loop/wait.h"

/* Thread#join, or the queue that a thread of NB::Offload closes. */
static bool is_from_elsewhere(VALUE blocker)
{
    if (SPECIAL_CONST_P(blocker) || !RBASIC_CLASS(blocker))
        return false; /* a lock of Ruby's own has no class */
    return RTEST(rb_obj_is_kind_of(blocker, rb_cThread)) ||
           RTEST(rb_obj_is_kind_of(blocker, rb_path2class("NB::Offload::Done")));
}

static nb_peer_t awaits(const nb_park_t *park)
{
    nb_peer_t farthest = NB_PEER_NONE;
    if (park->kind == NB_PARK_OFFLOAD || park->kind == NB_PARK_RESOLVE)
        return NB_PEER_ELSEWHERE;
    if (park->kind == NB_PARK_BLOCK)
        return is_from_elsewhere(park->blocker) ? NB_PEER_ELSEWHERE : NB_PEER_WAKER;
    for (int i = 0; i < park->watch_count && farthest != NB_PEER_ELSEWHERE; i++) {
        const nb_watch_t *watch = &park->watches[i].watch;
        nb_peer_t peer = watch->on_ready ? nb_peer_of(watch->fd) : NB_PEER_NONE;
        if (peer > farthest)
            farthest = peer;
    }
    return farthest;
}

nb_peer_t nb_virtual_awaits(const nb_loop_t *loop)
{
    nb_peer_t farthest = NB_PEER_NONE;
    for (size_t i = 0; loop->parked.slots && i <= loop->parked.mask; i++) {
        const nb_park_t *park = loop->parked.slots[i].value;
        for (; park && farthest != NB_PEER_ELSEWHERE; park = park->outer) {
            nb_peer_t peer = awaits(park);
            if (peer > farthest)
                farthest = peer;
        }
    }
    return farthest;
}

void nb_virtual_pass(nb_loop_t *loop, uint64_t since_ns)
{
    loop->virtual_ns += nb_clock_now() - since_ns;
}

void nb_virtual_jump(nb_loop_t *loop)
{
    uint64_t next = nb_timers_next(&loop->timers);
    if (next != NB_NEVER && next > loop->virtual_ns)
        loop->virtual_ns = next;
}
