/* delayd_ruby.h - the door of this room for init.c. Uses ruby.h. */
#ifndef NB_DELAYD_RUBY_H
#define NB_DELAYD_RUBY_H

#include <ruby.h>

void Init_nb_delayd(VALUE mNB);

#endif
