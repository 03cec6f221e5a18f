/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads and sets the registers that a system call uses, in a stopped thread. Each architecture has
 * one .c file. */

#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

/* The instruction that enters the kernel. */
extern const unsigned char registers_trap[];
extern const size_t registers_trap_size;

/* Sets the registers as if the thread had just reached a system call instruction at @pc. */
void registers_set_call(struct user_regs_struct *regs, uint64_t pc, long nr,
                        const uint64_t args[static 6]);
/* Returns the result of the call, or a negative errno. */
long registers_result(const struct user_regs_struct *regs);
