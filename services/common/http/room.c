/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which connections stay when the server is full.
 *
 * Each kind of socket has its own limit, max_connections, so clients over TCP cannot use up the
 * connections of the unix socket. A connection is trusted if one of its requests was authorized. A
 * connection is idle if it has no request, or only a part of a head; every client must expect such
 * a connection to close. At the limit, a new connection replaces the untrusted connection that has
 * been idle longest. If no untrusted connection is idle, it replaces the trusted connection that
 * has been idle longest. If all connections are busy, a new connection gets 503 when its head has
 * arrived. At most HTTP_REFUSED_MAX such connections wait for their head; the newest replaces the
 * oldest.
 */
#include "common/http/server.h"

static void room_unlink(struct http_conn *conn)
{
    if (h2o_linklist_is_linked(&conn->link))
        h2o_linklist_unlink(&conn->link);
}

static struct http_conn *room_first(h2o_linklist_t *list)
{
    return h2o_linklist_is_empty(list) ? NULL
                                       : H2O_STRUCT_FROM_MEMBER(struct http_conn, link, list->next);
}

static bool room_spare(struct http_server *server, struct http_room *room)
{
    struct http_conn *conn = room_first(&room->idle[0]);

    if (!conn)
        conn = room_first(&room->idle[1]);
    if (!conn)
        return false;
    server->stats.n_evicted++;
    http_conn_close(conn);
    return true;
}

bool http_room_spare(struct http_server *server)
{
    for (unsigned i = HTTP_N_DOORS; i-- > 0;)
        if (room_spare(server, &server->rooms[i]))
            return true;
    return false;
}

void http_room_enter(struct http_conn *conn)
{
    struct http_server *server = conn->server;
    struct http_room *room = &server->rooms[conn->door];

    if (room->n >= server->params.max_connections)
        room_spare(server, room);
    if (room->n < server->params.max_connections) {
        room->n++;
        http_room_idle(conn);
        return;
    }
    conn->refused = true;
    if (room->n_refused == HTTP_REFUSED_MAX)
        http_conn_close(room_first(&room->refused));
    room->n_refused++;
    h2o_linklist_insert(&room->refused, &conn->link);
}

void http_room_leave(struct http_conn *conn)
{
    struct http_room *room = &conn->server->rooms[conn->door];

    room_unlink(conn);
    if (conn->refused)
        room->n_refused--;
    else
        room->n--;
}

void http_room_idle(struct http_conn *conn)
{
    if (conn->refused || h2o_linklist_is_linked(&conn->link))
        return;
    h2o_linklist_insert(&conn->server->rooms[conn->door].idle[conn->trusted], &conn->link);
}

void http_room_busy(struct http_conn *conn)
{
    if (!conn->refused)
        room_unlink(conn);
}
