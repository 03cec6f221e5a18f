/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a service process, from taking its sockets to its exit.
 *
 * The timers are: idle (checks whether idle_timeout is over), watchdog (twice per WatchdogSec=),
 * status (while there is work), retire (after service_retire()), and drain (after SIGTERM). A
 * second SIGTERM ends the process at once.
 *
 * The status is sent at most once a second, and only if its text changed. Its timer runs until
 * there was no activity for five seconds, so the last text is always sent, at most a second late.
 */
#include "common/service/service.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>

#include "common/confine/confine.h"
#include "common/service/listen.h"
#include "common/service/log.h"
#include "common/service/loop.h"
#include "core/clock.h"
#include "core/err.h"

#define SERVICE_STATUS_USEC (1000 * 1000u)
#define SERVICE_RETIRE_USEC (100 * 1000u)
/* The time in which the last messages may be sent after the drain timeout. */
#define SERVICE_LAST_USEC (2000 * 1000u)

struct service {
    struct service_params params;
    struct loop *loop;
    struct http_server *server;
    struct loop_watch *signals;
    int signal_fd;
    struct loop_timer idle, watchdog, status, drain, retire;
    uint64_t watchdog_usec, active_usec;
    char status_text[256];
    bool draining, expired;
};

static bool service_is_busy(struct service *service)
{
    return (service->server && http_server_stats(service->server)->n_connections > 0) ||
           (service->params.busy && service->params.busy(service->params.data));
}

static void service_pause(struct service *service)
{
    if (service->server)
        http_server_pause(service->server);
    else
        service->params.door->pause(service->params.data);
}

static void service_resume(struct service *service)
{
    if (service->server)
        http_server_resume(service->server);
    else
        service->params.door->resume(service->params.data);
}

static void service_drain(struct service *service)
{
    service->draining = true;
    sd_notify(0, "STOPPING=1\nSTATUS=Finishing running requests");
    loop_timer_stop(service->loop, &service->idle);
    loop_timer_stop(service->loop, &service->status);
    loop_timer_stop(service->loop, &service->retire);
    loop_timer_set(service->loop, &service->drain, service->params.drain_timeout_usec);
    if (service->params.draining)
        service->params.draining(service->params.data);
    if (service->server)
        http_server_drain(service->server);
    else
        service_pause(service);
}

/* Returns whether no request and no other work is left. There may still be connections without
 * requests. */
static bool service_is_quiet(struct service *service)
{
    return !(service->server && http_server_stats(service->server)->n_requests > 0) &&
           !(service->params.busy && service->params.busy(service->params.data));
}

static void service_on_idle(struct loop_timer *timer)
{
    struct service *service = timer->data;
    const uint64_t quiet = clock_usec() - service->active_usec;
    const uint64_t stays = service->params.stays ? service->params.stays(service->params.data) : 0;

    if (quiet < service->params.idle_timeout_usec) {
        loop_timer_set(service->loop, timer, service->params.idle_timeout_usec - quiet);
        return;
    }
    if (stays) {
        loop_timer_set(service->loop, timer, stays);
        return;
    }
    service_pause(service);
    if (service_is_busy(service)) {
        service_resume(service);
        if (service->params.closes_idle_connections && service_is_quiet(service)) {
            service_drain(service);
            return;
        }
        loop_timer_set(service->loop, timer,
                       service->params.is_long_busy
                           ? service->params.idle_timeout_usec
                           : MIN(service->params.idle_timeout_usec, 500000u));
        return;
    }
    log_debug("idle, leaving");
    sd_notify(0, "STOPPING=1\nSTATUS=Idle");
    loop_stop(service->loop);
}

/* Exits unless a request is running. Open connections without requests do not count, because their
 * clients will open new ones. */
static void service_on_retire(struct loop_timer *timer)
{
    struct service *service = timer->data;

    if (service_is_quiet(service))
        service_drain(service);
    else
        loop_timer_set(service->loop, timer, SERVICE_RETIRE_USEC);
}

void service_retire(struct service *service, const char *why)
{
    if (service->draining || loop_timer_is_set(&service->retire))
        return;
    log_info("exiting as soon as no request is running: %s", why);
    loop_timer_set(service->loop, &service->retire, SERVICE_RETIRE_USEC);
}

void service_touch(struct service *service)
{
    service->active_usec = clock_usec();
    if (service->params.status && !service->draining && !loop_timer_is_set(&service->status))
        loop_timer_set(service->loop, &service->status, SERVICE_STATUS_USEC);
}

static void service_on_watchdog(struct loop_timer *timer)
{
    struct service *service = timer->data;

    sd_notify(0, "WATCHDOG=1");
    loop_timer_set(service->loop, timer, service->watchdog_usec / 2);
}

static void service_on_status(struct loop_timer *timer)
{
    struct service *service = timer->data;
    char text[sizeof(service->status_text)] = "";

    service->params.status(service->params.data, text, sizeof(text));
    if (strcmp(text, service->status_text) != 0) {
        memcpy(service->status_text, text, sizeof(text));
        sd_notifyf(0, "STATUS=%s", text);
    }
    if ((service_is_busy(service) && !service->params.is_long_busy) ||
        clock_usec() - service->active_usec < 5 * SERVICE_STATUS_USEC)
        loop_timer_set(service->loop, timer, SERVICE_STATUS_USEC);
}

static void service_on_drained(struct loop_timer *timer)
{
    struct service *service = timer->data;

    if (!service->expired) {
        log_warn("requests did not finish in time and are ended");
        service->expired = true;
        if (service->params.expired)
            service->params.expired(service->params.data);
        loop_timer_set(service->loop, timer, SERVICE_LAST_USEC);
        return;
    }
    loop_stop(service->loop);
}

void service_drained(struct service *service)
{
    if (service->draining)
        loop_stop(service->loop);
}

static void service_on_unused(void *data)
{
    struct service *service = data;

    if (!service->params.holds || !service->params.holds(service->params.data))
        service_drained(service);
}

static void service_on_signal(void *data)
{
    struct service *service = data;
    struct signalfd_siginfo info;

    if (read(service->signal_fd, &info, sizeof(info)) != sizeof(info))
        return;
    if (service->draining) {
        loop_stop(service->loop);
        return;
    }
    service_drain(service);
}

/* The names of sockets are in the units (FileDescriptorName=). */
static enum http_door service_door_of(const struct listen_socket *socket)
{
    if (!socket->is_tcp)
        return HTTP_DOOR_UNIX;
    return strcmp(socket->name, SERVICE_OLLAMA_SOCKET) == 0 ? HTTP_DOOR_OLLAMA : HTTP_DOOR_TCP;
}

static int service_open(struct service *service, struct inf_err *reterr)
{
    const struct service_door *door = service->params.door;
    struct http_server_params http = service->params.http;
    struct listen_socket sockets[LISTEN_MAX];
    size_t n = 0;
    sigset_t set;
    int r;

    http.unused = service_on_unused;
    http.unused_data = service;
    r = listen_take(service->params.name, door ? service->params.door_type : SOCK_STREAM, sockets,
                    &n, reterr);
    if (r < 0)
        return r;
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    service->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (service->signal_fd < 0)
        return err_set(reterr, errno, "signalfd: %s", strerror(errno));
    r = loop_new(&service->loop);
    if (r == 0)
        r = loop_watch_new(service->loop, service->signal_fd, service_on_signal, service,
                           &service->signals);
    if (r == 0 && !door)
        r = http_server_new(service->loop, &http, &service->server);
    for (size_t i = 0; r == 0 && i < n; i++)
        r = door ? door->listen(service->params.data, service->loop, sockets[i].fd)
                 : http_server_listen(service->server, sockets[i].fd, service_door_of(&sockets[i]));
    return r < 0 ? err_set(reterr, -r, "cannot serve: %s", strerror(-r)) : 0;
}

int service_new(const struct service_params *params, struct service **ret_service,
                struct inf_err *reterr)
{
    struct service *service = NEW(struct service, 1);
    int r;

    if (!service)
        return err_set(reterr, ENOMEM, "out of memory");
    service->params = *params;
    service->signal_fd = -1;
    service->idle = (struct loop_timer){.fire = service_on_idle, .data = service};
    service->watchdog = (struct loop_timer){.fire = service_on_watchdog, .data = service};
    service->status = (struct loop_timer){.fire = service_on_status, .data = service};
    service->drain = (struct loop_timer){.fire = service_on_drained, .data = service};
    service->retire = (struct loop_timer){.fire = service_on_retire, .data = service};
    r = service_open(service, reterr);
    if (r < 0) {
        service_free(service);
        return r;
    }
    *ret_service = service;
    return 0;
}

struct service *service_free(struct service *service)
{
    if (!service)
        return NULL;
    http_server_free(service->server);
    if (service->loop) {
        loop_timer_stop(service->loop, &service->idle);
        loop_timer_stop(service->loop, &service->watchdog);
        loop_timer_stop(service->loop, &service->status);
        loop_timer_stop(service->loop, &service->drain);
        loop_timer_stop(service->loop, &service->retire);
        loop_watch_free(service->signals);
        loop_free(service->loop);
    }
    if (service->signal_fd >= 0)
        close(service->signal_fd);
    free(service);
    return NULL;
}

struct loop *service_loop(struct service *service)
{
    return service->loop;
}

struct http_server *service_server(struct service *service)
{
    return service->server;
}

bool service_is_draining(const struct service *service)
{
    return service->draining;
}

int service_run(struct service *service)
{
    struct inf_err err = {};
    int r;

    r = confine_seal(&err);
    if (r < 0) {
        log_error("%s", err.text);
        return r;
    }
    service->active_usec = clock_usec();
    if (sd_watchdog_enabled(0, &service->watchdog_usec) > 0)
        loop_timer_set(service->loop, &service->watchdog, service->watchdog_usec / 2);
    if (service->params.idle_timeout_usec)
        loop_timer_set(service->loop, &service->idle, service->params.idle_timeout_usec);
    sd_notifyf(0, "READY=1\nSTATUS=%s",
               service->params.ready_status ? service->params.ready_status : "Ready");
    r = loop_run(service->loop);
    if (r < 0)
        log_error("event loop: %s", strerror(-r));
    return r;
}
