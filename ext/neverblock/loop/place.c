/* place.c - which of a thread's frames is the program's own. Uses ruby.h. Read after: place.h. */
#include "loop/place.h"
#include <ruby/debug.h>
#include <string.h>

#define PREFIXES 64

static const char *const internal[] = {"<internal:", NULL};

static struct {
    const char *libraries[PREFIXES + 1], *ours[PREFIXES + 1];
    bool done;
} others;

static bool begins_with_one(VALUE path, const char *const *prefixes)
{
    for (; *prefixes; prefixes++) {
        size_t size = strlen(*prefixes);
        if ((size_t)RSTRING_LEN(path) >= size && !memcmp(RSTRING_PTR(path), *prefixes, size))
            return true;
    }
    return false;
}

static const VALUE *find(const VALUE *frames, int count, const char *const *prefixes)
{
    for (int i = 0; i < count; i++) {
        VALUE path = rb_profile_frame_path(frames[i]);
        if (RB_TYPE_P(path, T_STRING) && !begins_with_one(path, prefixes))
            return &frames[i];
    }
    return NULL;
}

const VALUE *nb_place_find(const VALUE *frames, int count)
{
    const VALUE *place = find(frames, count, others.libraries);
    return place ? place : find(frames, count, others.ours);
}

bool nb_place_is_internal(VALUE path)
{
    return begins_with_one(path, internal);
}

static void copy_prefixes(const char **copies, VALUE prefixes)
{
    for (long i = 0; i < RARRAY_LEN(prefixes) && i < PREFIXES; i++) {
        VALUE prefix = rb_ary_entry(prefixes, i);
        copies[i] = strdup(StringValueCStr(prefix));
    }
}

void nb_place_install(VALUE libraries, VALUE ours)
{
    if (others.done)
        return;
    others.done = true;
    copy_prefixes(others.libraries, libraries);
    copy_prefixes(others.ours, ours);
}
