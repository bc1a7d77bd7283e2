/* net_http_write.c - writes the head of a request as Net::HTTP does. Uses ruby.h.
 * Read after: net_http.h.
 *
 * It stands in for Net::HTTPGenericRequest#write_header and what this calls, on the terms of
 * net_http.c: the library's own methods, plain Strings of ASCII. Otherwise it returns nil.
 */
#include "drivers/net_http_write.h"
#include "drivers/net_http.h"
#include "loop/loop.h"
#include <ruby/encoding.h>
#include <ruby/fiber/scheduler.h>
#include <string.h>

static VALUE naming; /* Hash of the methods that capitalize names, by class of the request */
static ID id_header, id_method, id_capitalize, id_split;

static bool is_plain(VALUE string)
{
    return RB_TYPE_P(string, T_STRING) && CLASS_OF(string) == rb_cString &&
           rb_enc_str_asciionly_p(string);
}

static bool has_no_line_end(VALUE string)
{
    return !memchr(RSTRING_PTR(string), '\r', (size_t)RSTRING_LEN(string)) &&
           !memchr(RSTRING_PTR(string), '\n', (size_t)RSTRING_LEN(string));
}

/* "content-type" becomes "Content-Type". The library, too, drops a hyphen at the end. */
static bool add_name(VALUE head, VALUE name)
{
    long size = is_plain(name) ? RSTRING_LEN(name) : 0, at = RSTRING_LEN(head);
    if (!size || RSTRING_PTR(name)[size - 1] == '-')
        return false;
    rb_str_cat(head, RSTRING_PTR(name), size);
    char *bytes = RSTRING_PTR(head) + at;
    bool first = true;
    for (long i = 0; i < size; first = bytes[i++] == '-') {
        unsigned letter = ((unsigned char)bytes[i] | 0x20u) - 'a';
        if (letter < 26u)
            bytes[i] = (char)((first ? 'A' : 'a') + letter);
    }
    return true;
}

static bool add_values(VALUE head, VALUE values)
{
    if (!RB_TYPE_P(values, T_ARRAY) || CLASS_OF(values) != rb_cArray)
        return false;
    for (long i = 0; i < RARRAY_LEN(values); i++) {
        VALUE value = RARRAY_AREF(values, i);
        if (!is_plain(value))
            return false;
        if (i)
            rb_str_cat(head, ", ", 2);
        rb_str_cat(head, RSTRING_PTR(value), RSTRING_LEN(value));
    }
    return true;
}

typedef struct {
    VALUE head;
    bool plain;
} output_t;

static int add_field(VALUE name, VALUE values, VALUE argument)
{
    output_t *output = (output_t *)argument;
    output->plain = add_name(output->head, name);
    if (output->plain) {
        rb_str_cat(output->head, ": ", 2);
        output->plain = add_values(output->head, values);
    }
    rb_str_cat(output->head, "\r\n", 2);
    return output->plain ? ST_CONTINUE : ST_STOP;
}

/* "GET /path HTTP/1.1", or nil. */
static VALUE request_line(VALUE request, VALUE version, VALUE path)
{
    VALUE parts[] = {rb_ivar_get(request, id_method), path, version};
    VALUE head = rb_enc_str_new(NULL, 0, rb_utf8_encoding());
    for (int i = 0; i < 3; i++) {
        if (!is_plain(parts[i]) || !has_no_line_end(parts[i]))
            return Qnil;
        if (i)
            rb_str_cat_cstr(head, i == 1 ? " " : " HTTP/");
        rb_str_cat(head, RSTRING_PTR(parts[i]), RSTRING_LEN(parts[i]));
    }
    return rb_str_cat(head, "\r\n", 2);
}

static bool names_as_the_library(VALUE request)
{
    VALUE methods = rb_hash_lookup(naming, CLASS_OF(request));
    return !NIL_P(methods) && nb_net_http_are_stock(methods) &&
           rb_method_basic_definition_p(rb_cString, id_capitalize) &&
           rb_method_basic_definition_p(rb_cString, id_split);
}

/* @overload request_head(request, version, path)
 *   @param request [Net::HTTPGenericRequest]
 *   @param version [String] such as "1.1"
 *   @param path [String]
 *   @return [String, nil] what write_header would write; nil: the library has to do it
 *   @scheduling never waits */
static VALUE rb_nb_net_http_request_head(VALUE self, VALUE request, VALUE version, VALUE path)
{
    VALUE header = rb_ivar_get(request, id_header);
    if (!nb_is_loop(rb_fiber_scheduler_current()) || !RB_TYPE_P(header, T_HASH) ||
        CLASS_OF(header) != rb_cHash || !names_as_the_library(request))
        return Qnil;
    output_t output = {.head = request_line(request, version, path), .plain = true};
    if (NIL_P(output.head))
        return Qnil;
    rb_hash_foreach(header, add_field, (VALUE)&output);
    return output.plain ? rb_str_cat(output.head, "\r\n", 2) : Qnil;
}

/* @overload attach_writing(naming)
 *   @param naming [Hash] methods as nb_net_http_are_stock takes them, by class of the request
 *   @return [nil] */
static VALUE rb_nb_net_http_attach_writing(VALUE self, VALUE methods)
{
    id_header = rb_intern("@header");
    id_method = rb_intern("@method");
    id_capitalize = rb_intern("capitalize");
    id_split = rb_intern("split");
    naming = methods;
    return Qnil;
}

void Init_nb_net_http_write(VALUE mNB)
{
    VALUE mDrivers = rb_define_module_under(mNB, "Drivers");
    VALUE mCalls = rb_define_module_under(mDrivers, "NetHTTPCalls");
    rb_gc_register_address(&naming);
    rb_define_singleton_method(mCalls, "attach_writing", rb_nb_net_http_attach_writing, 1);
    rb_define_singleton_method(mCalls, "request_head", rb_nb_net_http_request_head, 3);
}
