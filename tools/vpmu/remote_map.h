/* SPDX-License-Identifier: GPL-2.0-or-later */
/* vpmu-guest-map, run in a guest by QEMU's guest agent while the host records. */
#ifndef REMOTE_MAP_H
#define REMOTE_MAP_H

#include <stddef.h>

struct remote_map;

/*
 * Copy @program to the guest behind the agent's socket @path, and start it: from here on, the guest's
 * processes are noted.  NULL: that failed; *@error says why, and is to be freed.
 */
struct remote_map *remote_map_start(const char *path, const char *program, char **error);

/*
 * End it.  *@text is what guest_map_parse() takes, *@size bytes, to be freed; NULL: none, *@error
 * says why, and is to be freed.  Nothing is left in the guest, and @map is freed.
 */
void remote_map_end(struct remote_map *map, char **text, size_t *size, char **error);

#endif
