/* SPDX-License-Identifier: Apache-2.0 */
/* Makes system calls of x86-64. The number is in rax, and the arguments are in rdi, rsi, rdx, r10,
 * r8 and r9. */
#include "registers.h"

const unsigned char registers_trap[] = {0x0f, 0x05};
const size_t registers_trap_size = sizeof(registers_trap);

void registers_set_call(struct user_regs_struct *regs, uint64_t pc, long nr,
                        const uint64_t args[static 6])
{
    regs->rip = pc;
    regs->rax = (uint64_t)nr;
    /* Marks the thread as outside of a system call, so that the kernel does not restart the
     * interrupted call. */
    regs->orig_rax = (uint64_t)-1;
    regs->rdi = args[0];
    regs->rsi = args[1];
    regs->rdx = args[2];
    regs->r10 = args[3];
    regs->r8 = args[4];
    regs->r9 = args[5];
}

long registers_result(const struct user_regs_struct *regs)
{
    return (long)regs->rax;
}
