/* net_http.c - reads the head of a response as Net::HTTP does. Uses ruby.h. Read after: answer.h.
 *
 * It stands in for Net::HTTPResponse.read_new and all that this calls, if these methods are the
 * library's own and the head is a plain one that has arrived. Otherwise it returns nil before
 * anything has changed, and the library reads. Results are the same as the library's, down to
 * encodings (all bytes are BINARY) and to what stays in the buffer.
 */
#include "drivers/net_http.h"
#include "http/answer.h"
#include "loop/loop.h"
#include <ruby/encoding.h>
#include <ruby/fiber/scheduler.h>

#define FIELDS 64
#define HEAD_BYTES 65536
#define NAME_BYTES 1024

/* The library's own methods, as Arrays of class, name, UnboundMethod. */
static VALUE reading, taking;
static VALUE filling; /* Hash of such Arrays by class of the response */
static VALUE cResponse, cBufferedIO, mHeader;
static bool has_offset; /* as net-protocol 0.2 has: @rbuf_offset, @rbuf_empty */
static ID id_rbuf, id_offset, id_empty, id_debug_output, id_header, id_fill, id_add_field,
    id_instance_method, id_response_class, id_new, id_max_head, id_max_name, id_max_value;

bool nb_net_http_are_stock(VALUE methods)
{
    for (long i = 0; i < RARRAY_LEN(methods); i += 3) {
        VALUE name = RARRAY_AREF(methods, i + 1);
        VALUE method = rb_funcallv(RARRAY_AREF(methods, i), id_instance_method, 1, &name);
        if (!RTEST(rb_equal(method, RARRAY_AREF(methods, i + 2))))
            return false;
    }
    return true;
}

/* A limit of the library, in case someone has set it lower than we assume. */
static bool allows(VALUE module, ID name, long size)
{
    if (!rb_const_defined(module, name))
        return true;
    VALUE limit = rb_const_get(module, name);
    return FIXNUM_P(limit) && FIX2LONG(limit) >= size;
}

/* ---- the buffer ---------------------------------------------------------------------------- */

typedef struct {
    VALUE socket, string;
    long offset;
} input_t;

static bool take_buffer(input_t *input, VALUE socket)
{
    input->socket = socket;
    input->string = rb_ivar_get(socket, id_rbuf);
    VALUE offset = has_offset ? rb_ivar_get(socket, id_offset) : INT2FIX(0);
    if (!RB_TYPE_P(input->string, T_STRING) || rb_obj_class(input->string) != rb_cString ||
        OBJ_FROZEN(input->string) || rb_enc_get_index(input->string) != rb_ascii8bit_encindex() ||
        !FIXNUM_P(offset))
        return false;
    input->offset = FIX2LONG(offset);
    return input->offset >= 0 && input->offset <= RSTRING_LEN(input->string) &&
           NIL_P(rb_ivar_get(socket, id_debug_output));
}

static long bytes_left(const input_t *input)
{
    return RSTRING_LEN(input->string) - input->offset;
}

/* Leaves the buffer as one rbuf_consume per line would. */
static void consume(const input_t *input, long size)
{
    bool all = size == bytes_left(input);
    if (!has_offset && all) {
        rb_ivar_set(input->socket, id_rbuf, rb_str_new(NULL, 0));
    } else if (!has_offset) {
        rb_str_update(input->string, 0, size, rb_str_new(NULL, 0));
    } else {
        if (all)
            rb_str_resize(input->string, 0);
        rb_ivar_set(input->socket, id_offset, LONG2FIX(all ? 0 : input->offset + size));
        rb_ivar_set(input->socket, id_empty, all ? Qtrue : Qfalse);
    }
}

/* ---- the response -------------------------------------------------------------------------- */

static VALUE text(const char *bytes, nb_span_t span)
{
    return rb_str_new(bytes + span.at, span.size);
}

static bool is_short(const nb_answer_t *answer, const nb_field_t *fields)
{
    long name = 0, value = 0;
    for (uint32_t i = 0; i < answer->field_count; i++) {
        name = name > fields[i].name_size ? name : fields[i].name_size;
        value = value > fields[i].value_size ? value : fields[i].value_size;
    }
    return answer->size <= HEAD_BYTES && name <= NAME_BYTES &&
           allows(cResponse, id_max_head, answer->size) && allows(mHeader, id_max_name, name) &&
           allows(mHeader, id_max_value, value);
}

/* The name in lower case, frozen and shared, as a Hash keeps its keys. */
static VALUE key_of(const char *bytes, const nb_field_t *field)
{
    char name[NAME_BYTES];
    for (size_t i = 0; i < field->name_size; i++) {
        unsigned char byte = nb_byte_at(bytes + field->name + i);
        name[i] = (char)((unsigned)byte - 'A' < 26u ? byte | 0x20 : byte);
    }
    return rb_enc_interned_str(name, field->name_size, rb_ascii8bit_encoding());
}

static VALUE value_of(const char *bytes, const nb_field_t *field)
{
    return rb_str_new(bytes + field->value, field->value_size);
}

static void add_to(VALUE header, const char *bytes, const nb_field_t *field)
{
    VALUE key = key_of(bytes, field), value = value_of(bytes, field);
    VALUE values = rb_hash_lookup(header, key);
    if (NIL_P(values))
        rb_hash_aset(header, key, rb_ary_new_from_values(1, &value));
    else
        rb_ary_push(values, value);
}

static bool may_fill(VALUE response, VALUE header)
{
    VALUE methods = rb_hash_lookup(filling, CLASS_OF(response));
    return !NIL_P(methods) && nb_net_http_are_stock(methods) && RB_TYPE_P(header, T_HASH) &&
           rb_obj_class(header) == rb_cHash && RHASH_EMPTY_P(header);
}

/* Adds the fields one by one if the class has methods of its own for that. */
static void add_fields(VALUE response, VALUE head, const nb_answer_t *answer,
                       const nb_field_t *fields)
{
    VALUE header = rb_ivar_get(response, id_header);
    bool direct = may_fill(response, header);
    const char *bytes = RSTRING_PTR(head);
    for (uint32_t i = 0; i < answer->field_count; i++) {
        if (direct) {
            add_to(header, bytes, &fields[i]);
        } else {
            nb_span_t name = {.at = fields[i].name, .size = fields[i].name_size};
            rb_funcall(response, id_add_field, 2, text(bytes, name), value_of(bytes, &fields[i]));
        }
    }
    RB_GC_GUARD(head);
}

static VALUE new_response(const char *bytes, const nb_answer_t *answer)
{
    VALUE arguments[] = {text(bytes, answer->version), text(bytes, answer->code), Qnil};
    if (answer->has_message)
        arguments[2] = text(bytes, answer->message);
    VALUE klass = rb_funcallv(cResponse, id_response_class, 1, &arguments[1]);
    return rb_funcallv(klass, id_new, 3, arguments);
}

static VALUE read_response(const input_t *input)
{
    nb_answer_t answer;
    nb_field_t fields[FIELDS];
    const char *bytes = RSTRING_PTR(input->string) + input->offset;
    if (!nb_answer_read(&answer, bytes, (size_t)bytes_left(input), fields, FIELDS) ||
        !is_short(&answer, fields) || !nb_net_http_are_stock(taking))
        return Qnil;
    /* What makes the response is Ruby code, which may do anything. */
    VALUE head = rb_str_new(RSTRING_PTR(input->string) + input->offset, answer.size);
    consume(input, answer.size);
    VALUE response = new_response(RSTRING_PTR(head), &answer);
    add_fields(response, head, &answer, fields);
    RB_GC_GUARD(head);
    return response;
}

/* @overload read(klass, socket)
 *   @param klass [Class] whose read_new was called
 *   @param socket [Net::BufferedIO]
 *   @return [Net::HTTPResponse, nil] nil: at most the empty buffer was filled, as the library would
 *     do too
 *   @scheduling may wait */
static VALUE rb_nb_net_http_read(VALUE self, VALUE klass, VALUE socket)
{
    input_t input;
    if (!nb_is_loop(rb_fiber_scheduler_current()) || klass != cResponse ||
        CLASS_OF(socket) != cBufferedIO || !take_buffer(&input, socket) ||
        !nb_net_http_are_stock(reading))
        return Qnil;
    if (!bytes_left(&input)) {
        rb_funcallv(socket, id_fill, 0, NULL);
        if (CLASS_OF(socket) != cBufferedIO || !take_buffer(&input, socket))
            return Qnil;
    }
    return read_response(&input);
}

static void intern_names(void)
{
    id_rbuf = rb_intern("@rbuf");
    id_offset = rb_intern("@rbuf_offset");
    id_empty = rb_intern("@rbuf_empty");
    id_debug_output = rb_intern("@debug_output");
    id_header = rb_intern("@header");
    id_fill = rb_intern("rbuf_fill");
    id_add_field = rb_intern("add_field");
    id_instance_method = rb_intern("instance_method");
    id_response_class = rb_intern("response_class");
    id_new = rb_intern("new");
    id_max_head = rb_intern("MAX_RESPONSE_HEADER_LENGTH");
    id_max_name = rb_intern("MAX_KEY_LENGTH");
    id_max_value = rb_intern("MAX_FIELD_LENGTH");
}

/* @overload attach(reading, taking, filling, offset)
 *   @param reading [Array] class, name and UnboundMethod, repeated: what read_new calls before the
 *     head has arrived
 *   @param taking [Array] the same, for what it calls after that
 *   @param filling [Hash] such Arrays of what adds fields, by class of the response
 *   @param offset [Boolean] whether a BufferedIO counts what was read, instead of cutting it off
 *   @return [nil] */
static VALUE rb_nb_net_http_attach(VALUE self, VALUE before, VALUE after, VALUE adding,
                                   VALUE offset)
{
    intern_names();
    has_offset = RTEST(offset);
    cResponse = rb_path2class("Net::HTTPResponse");
    cBufferedIO = rb_path2class("Net::BufferedIO");
    mHeader = rb_path2class("Net::HTTPHeader");
    reading = before;
    taking = after;
    filling = adding;
    return Qnil;
}

void Init_nb_net_http(VALUE mNB)
{
    VALUE mDrivers = rb_define_module_under(mNB, "Drivers");
    VALUE mCalls = rb_define_module_under(mDrivers, "NetHTTPCalls");
    VALUE *kept[] = {&reading, &taking, &filling, &cResponse, &cBufferedIO, &mHeader};
    for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++)
        rb_gc_register_address(kept[i]);
    rb_define_singleton_method(mCalls, "attach", rb_nb_net_http_attach, 4);
    rb_define_singleton_method(mCalls, "read", rb_nb_net_http_read, 2);
}
