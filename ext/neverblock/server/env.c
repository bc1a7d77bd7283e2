/* env.c - the Rack env of one request, built in one pass. Uses ruby.h.
 *
 * The template (everything that is the same for all requests) is copied, then the rest is set. Keys
 * are frozen and shared. Host, its two derivatives and the client's address are kept in small
 * caches, because the same few values come again and again. Every field that a client sends may be
 * changed in place, as under Puma, so a request gets a copy of Host.
 *
 * Read after: env.h, http/tables.h.
 */
#include "server/env.h"
#include "http/bytes.h"
#include "http/tables.h"
#include "server/exchange.h"
#include "server/input.h"
#include "server/timing.h"
#include <arpa/inet.h>
#include <ruby/encoding.h>
#include <string.h>

#define HOSTS 64
#define PEERS 256
#define HOST_BYTES 64

static VALUE field_keys[NB_FIELD_KNOWN_COUNT];
static VALUE key_method, key_path, key_request_path, key_uri, key_query, key_protocol, key_name,
    key_port, key_remote, key_input, key_hijack, key_finished, key_after, key_upgrade, key_scheme,
    key_length, key_early, key_exchange, key_queue;
static VALUE text_http10, text_https, text_port80, text_port443, text_unix, text_chunked;
static VALUE method_names[8];

struct host_entry {
    char bytes[HOST_BYTES];
    size_t size;
    VALUE host, name, port; /* port 0: not in the field */
};

struct peer_entry {
    unsigned char bytes[16];
    uint8_t family;
    VALUE text;
};

/* Belongs to the server, whose mark function keeps the values alive and in place. */
struct nb_env_cache {
    struct host_entry hosts[HOSTS];
    struct peer_entry peers[PEERS];
};

void nb_env_mark(const nb_env_cache_t *cache)
{
    for (int i = 0; i < HOSTS; i++) {
        rb_gc_mark(cache->hosts[i].host);
        rb_gc_mark(cache->hosts[i].name);
        rb_gc_mark(cache->hosts[i].port);
    }
    for (int i = 0; i < PEERS; i++)
        rb_gc_mark(cache->peers[i].text);
}

nb_env_cache_t *nb_env_cache_new(void)
{
    return xcalloc(1, sizeof(nb_env_cache_t));
}

static VALUE shared(const char *text)
{
    VALUE string = rb_interned_str_cstr(text);
    rb_gc_register_mark_object(string);
    return string;
}

/* UTF-8, so it is the same object as a literal: then a Hash compares no bytes. */
static VALUE interned_key(const char *text, size_t size)
{
    return rb_enc_interned_str(text, (long)size, rb_utf8_encoding());
}

VALUE nb_env_key(const char *text)
{
    VALUE key = interned_key(text, strlen(text));
    rb_gc_register_mark_object(key);
    return key;
}

static VALUE binary(const char *bytes, size_t size)
{
    return rb_str_new(bytes, (long)size);
}

static VALUE frozen_binary(const char *bytes, size_t size)
{
    return rb_enc_interned_str(bytes, (long)size, rb_ascii8bit_encoding());
}

static VALUE span_text(const nb_incoming_t *in, nb_span_t span)
{
    return binary(in->bytes + span.at, span.size);
}

/* --- host and peer -------------------------------------------------------------------------- */

static unsigned hash_of(const unsigned char *bytes, size_t size)
{
    unsigned hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    return hash;
}

static size_t name_size(const char *host, size_t size)
{
    const char *colon;
    if (size && *host == '[') {
        const char *close = memchr(host, ']', size);
        return close ? (size_t)(close - host) + 1 : size;
    }
    colon = memchr(host, ':', size);
    return colon ? (size_t)(colon - host) : size;
}

static void fill_host(struct host_entry *entry, const char *host, size_t size)
{
    size_t name = name_size(host, size);
    entry->size = 0; /* matches nobody, should one of these raise */
    entry->host = frozen_binary(host, size);
    entry->name = name ? frozen_binary(host, name) : text_unix;
    entry->port = name + 1 < size ? frozen_binary(host + name + 1, size - name - 1) : 0;
    entry->size = size <= HOST_BYTES ? size : 0;
    memcpy(entry->bytes, host, entry->size);
}

static struct host_entry *host_of(nb_env_cache_t *cache, const char *host, size_t size)
{
    struct host_entry *entry = &cache->hosts[hash_of((const unsigned char *)host, size) % HOSTS];
    if (!entry->host || entry->size != size || memcmp(entry->bytes, host, size) != 0)
        fill_host(entry, host, size);
    return entry;
}

static VALUE peer_of(const nb_conn_t *conn)
{
    if (!conn->family)
        return text_unix;
    struct peer_entry *entry =
        &conn->server->cache->peers[hash_of(conn->peer, sizeof(conn->peer)) % PEERS];
    if (!entry->text || entry->family != conn->family ||
        memcmp(entry->bytes, conn->peer, sizeof(conn->peer)) != 0) {
        char text[INET6_ADDRSTRLEN];
        inet_ntop(conn->family, conn->peer, text, sizeof(text));
        entry->text = rb_interned_str_cstr(text);
        entry->family = conn->family;
        memcpy(entry->bytes, conn->peer, sizeof(conn->peer));
    }
    return entry->text;
}

/* --- fields ----------------------------------------------------------------------------------- */

/* Not toupper: in a Turkish locale it leaves an "i" as it is. */
static char upper(char byte)
{
    return byte >= 'a' && byte <= 'z' ? (char)(byte - ('a' - 'A')) : byte;
}

/* HTTP_X_SOMETHING, for a name that is not in the table. */
static VALUE unknown_key(const char *name, size_t size)
{
    char key[256];
    memcpy(key, "HTTP_", 5);
    for (size_t i = 0; i < size; i++)
        key[i + 5] = name[i] == '-' ? '_' : upper(name[i]);
    return interned_key(key, size + 5);
}

/* "X_Real_IP" would become the same key as "X-Real-IP", which a proxy sets. So names with an
 * underscore are left out, as in nginx. "Proxy" would become HTTP_PROXY (httpoxy), and "Version"
 * HTTP_VERSION: to Rack, that is an older name of SERVER_PROTOCOL. */
static bool unwanted(const char *name, size_t size)
{
    return size > 250 || memchr(name, '_', size) || (size == 5 && nb_same_word(name, "proxy", 5)) ||
           (size == 7 && nb_same_word(name, "version", 7));
}

/* The same field again: joined to one value, RFC 9110 5.3. */
static VALUE joined(VALUE old, const char *bytes, size_t size, int known)
{
    VALUE value = rb_str_dup(old);
    rb_str_cat(value, known == NB_FIELD_COOKIE ? "; " : ", ", 2);
    return rb_str_cat(value, bytes, (long)size);
}

static void set_field(VALUE env, const nb_incoming_t *in, const nb_field_t *field, bool *seen)
{
    const char *name = in->bytes + field->name, *bytes = in->bytes + field->value;
    VALUE key, value;
    if (field->known == NB_FIELD_HOST || field->known == NB_FIELD_TRANSFER_ENCODING)
        return;
    if (!field->known && unwanted(name, field->name_size))
        return;
    key = field->known ? field_keys[field->known] : unknown_key(name, field->name_size);
    bool again = field->known ? seen[field->known] : rb_hash_lookup2(env, key, Qundef) != Qundef;
    seen[field->known] = true;
    value = again ? joined(rb_hash_aref(env, key), bytes, field->value_size, field->known)
                  : binary(bytes, field->value_size);
    rb_hash_aset(env, key, value);
}

/* --- the rest --------------------------------------------------------------------------------- */

static VALUE method_of(const char *name, size_t size)
{
    for (size_t i = 0; i < 8; i++)
        if ((size_t)RSTRING_LEN(method_names[i]) == size &&
            memcmp(RSTRING_PTR(method_names[i]), name, size) == 0)
            return method_names[i];
    return rb_interned_str(name, (long)size);
}

static void set_target(VALUE env, const nb_incoming_t *in, nb_request_t *request)
{
    const nb_head_t *head = in->head;
    const char *method = in->bytes + head->method.at;
    rb_hash_aset(env, key_method, method_of(method, head->method.size));
    request->head_request = head->method.size == 4 && memcmp(method, "HEAD", 4) == 0;
    rb_hash_aset(env, key_uri, span_text(in, head->target));
    if (head->query.size)
        rb_hash_aset(env, key_query, span_text(in, head->query));
    bool options = head->method.size == 7 && memcmp(method, "OPTIONS", 7) == 0;
    VALUE path = head->path.size ? span_text(in, head->path) : binary(options ? "*" : "/", 1);
    rb_hash_aset(env, key_path, path);
    rb_hash_aset(env, key_request_path, path); /* as Puma has it */
}

static bool says(VALUE env, int known, const char *text)
{
    VALUE value = rb_hash_aref(env, field_keys[known]);
    return strncmp(StringValueCStr(value), text, strlen(text)) == 0;
}

/* A proxy in front speaks TLS with the client. Puma, Unicorn and Rack trust its word, too. */
static bool forwarded_https(VALUE env, const bool *seen)
{
    return (seen[NB_FIELD_X_FORWARDED_PROTO] && says(env, NB_FIELD_X_FORWARDED_PROTO, "https")) ||
           (seen[NB_FIELD_X_FORWARDED_SCHEME] && says(env, NB_FIELD_X_FORWARDED_SCHEME, "https")) ||
           (seen[NB_FIELD_X_FORWARDED_SSL] && says(env, NB_FIELD_X_FORWARDED_SSL, "on"));
}

static void set_host(VALUE env, const nb_incoming_t *in, const nb_conn_t *conn, const bool *seen)
{
    const nb_head_t *head = in->head;
    bool https = conn->https || head->flags & NB_HEAD_HTTPS || forwarded_https(env, seen);
    VALUE port = https ? text_port443 : text_port80;
    if (head->host.size) {
        struct host_entry *entry =
            host_of(conn->server->cache, in->bytes + head->host.at, head->host.size);
        rb_hash_aset(env, field_keys[NB_FIELD_HOST], rb_str_dup(entry->host));
        rb_hash_aset(env, key_name, entry->name);
        port = entry->port ? entry->port : port;
    } else if (conn->port && https == conn->https) { /* else it is not the proxy's port */
        port = rb_fix2str(INT2FIX(conn->port), 10);
    }
    rb_hash_aset(env, key_port, port);
    if (https)
        rb_hash_aset(env, key_scheme, text_https);
}

void nb_env_set_input(nb_request_t *request, const nb_incoming_t *in)
{
    VALUE env = request->env;
    nb_conn_t *conn = request->conn;
    if (in->body_size) {
        rb_hash_aset(env, key_input, nb_input_of(rb_hash_aref(env, key_input)));
    } else if (in->body_later) {
        if (conn->body->is_chunked) /* nothing else says that there is a body */
            rb_hash_aset(env, field_keys[NB_FIELD_TRANSFER_ENCODING], text_chunked);
        VALUE input = rb_const_get(rb_mNBServer, conn->body->streamed ? rb_intern("StreamedInput")
                                                                      : rb_intern("LazyInput"));
        request->input = rb_funcall(input, rb_intern("new"), 1, request->exchange);
        rb_hash_aset(env, key_input, request->input);
    } else if (conn->body) {
        if (conn->body->is_chunked)
            rb_hash_aset(env, key_length, rb_fix2str(LONG2FIX((long)conn->body->received), 10));
        VALUE input = nb_body_input(conn);
        if (RB_TYPE_P(input, T_FILE))
            request->input_file = input;
        rb_hash_aset(env, key_input, input);
    }
}

static VALUE upgrade_protocols(VALUE env)
{
    VALUE field = rb_hash_aref(env, field_keys[NB_FIELD_UPGRADE]), protocols = rb_ary_new();
    const char *at = RSTRING_PTR(field), *end = at + RSTRING_LEN(field), *element;
    size_t size;
    while (nb_next_element(&at, end, &element, &size))
        rb_ary_push(protocols, binary(element, size));
    RB_GC_GUARD(field);
    return protocols;
}

/* X-Queue-Start is an older name for the same field. */
static void set_queue(VALUE env, nb_request_t *request, const bool *seen)
{
    int known = seen[NB_FIELD_X_REQUEST_START] ? NB_FIELD_X_REQUEST_START : NB_FIELD_X_QUEUE_START;
    if (seen[known]) {
        VALUE text = rb_hash_aref(env, field_keys[known]);
        nb_timing_proxied(request, RSTRING_PTR(text), (size_t)RSTRING_LEN(text));
        RB_GC_GUARD(text);
    }
    rb_hash_aset(env, key_queue, DBL2NUM((double)request->queued_ns / 1e9));
}

VALUE nb_env_build(nb_server_t *server, nb_request_t *request, const nb_incoming_t *in)
{
    bool seen[NB_FIELD_KNOWN_COUNT] = {false};
    const nb_head_t *head = in->head;
    VALUE env = rb_hash_dup(server->env_template);
    request->env = env;
    request->exchange = nb_exchange_new(request);
    request->minor = head->minor;
    set_target(env, in, request);
    if (head->minor == 0)
        rb_hash_aset(env, key_protocol, text_http10);
    rb_hash_aset(env, key_remote, peer_of(request->conn));
    for (uint32_t i = 0; i < head->field_count; i++)
        set_field(env, in, &in->fields[i], seen);
    set_host(env, in, request->conn, seen);
    set_queue(env, request, seen);
    rb_hash_aset(env, key_hijack, request->exchange);
    rb_hash_aset(env, key_exchange, request->exchange);
    rb_hash_aset(env, key_finished, rb_ary_new());
    rb_hash_aset(env, key_after, rb_ary_new());
    if (head->flags & NB_HEAD_UPGRADE)
        rb_hash_aset(env, key_upgrade, upgrade_protocols(env));
    if (server->options.early_hints && head->minor)
        rb_hash_aset(env, key_early,
                     rb_obj_method(request->exchange, ID2SYM(rb_intern("early_hints"))));
    if (in->body_size)
        rb_hash_aset(env, key_input, binary(in->bytes + head->size, in->body_size));
    return env;
}

static VALUE key_of_known(int known)
{
    const struct nb_field_name *field = &nb_field_names[known];
    VALUE key = unknown_key(field->name, field->size);
    if (known == NB_FIELD_CONTENT_LENGTH || known == NB_FIELD_CONTENT_TYPE)
        key = interned_key(RSTRING_PTR(key) + 5, (size_t)RSTRING_LEN(key) - 5);
    rb_gc_register_mark_object(key);
    return key;
}

static void make_keys(void)
{
    key_method = nb_env_key("REQUEST_METHOD");
    key_path = nb_env_key("PATH_INFO");
    key_request_path = nb_env_key("REQUEST_PATH");
    key_uri = nb_env_key("REQUEST_URI");
    key_query = nb_env_key("QUERY_STRING");
    key_protocol = nb_env_key("SERVER_PROTOCOL");
    key_name = nb_env_key("SERVER_NAME");
    key_port = nb_env_key("SERVER_PORT");
    key_remote = nb_env_key("REMOTE_ADDR");
    key_input = nb_env_key("rack.input");
    key_hijack = nb_env_key("rack.hijack");
    key_finished = nb_env_key("rack.response_finished");
    key_after = nb_env_key("rack.after_reply");
    key_upgrade = nb_env_key("rack.protocol");
    key_scheme = nb_env_key("rack.url_scheme");
    key_early = nb_env_key("rack.early_hints");
    key_exchange = nb_env_key("neverblock.exchange");
    key_queue = nb_env_key("neverblock.queue_seconds");
    key_length = field_keys[NB_FIELD_CONTENT_LENGTH];
}

void nb_env_init(void)
{
    static const char *const methods[] = {"GET",     "POST",   "HEAD",  "PUT",
                                          "OPTIONS", "DELETE", "PATCH", "QUERY"};
    for (int known = 1; known < NB_FIELD_KNOWN_COUNT; known++)
        field_keys[known] = key_of_known(known);
    make_keys();
    text_http10 = shared("HTTP/1.0");
    text_https = shared("https");
    text_port80 = shared("80");
    text_port443 = shared("443");
    text_unix = shared("127.0.0.1");
    text_chunked = shared("chunked");
    for (int i = 0; i < 8; i++)
        method_names[i] = shared(methods[i]);
}
