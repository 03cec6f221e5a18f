/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The registers of a stopped thread that a system call uses; one .c file per architecture. */

#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

/* The instruction that enters the kernel. */
extern const unsigned char registers_trap[];
extern const size_t registers_trap_size;

/* Sets the registers as if the thread had just reached a system call instruction at @pc. */
void registers_set_call(struct user_regs_struct *regs, uint64_t pc, long nr,
                        const uint64_t args[static 6]);
/* The result of the call, or a negative errno. */
long registers_result(const struct user_regs_struct *regs);
