/* SPDX-License-Identifier: Apache-2.0 */
/* Makes system calls of arm64. The instruction is `svc #0`, the number is in x8, and the arguments
 * are in x0 to x5. If the program counter was changed, the kernel does not restart the interrupted
 * call. */
#include "registers.h"

const unsigned char registers_trap[] = {0x01, 0x00, 0x00, 0xd4};
const size_t registers_trap_size = sizeof(registers_trap);

void registers_set_call(struct user_regs_struct *regs, uint64_t pc, long nr,
                        const uint64_t args[static 6])
{
    regs->pc = pc;
    regs->regs[8] = (uint64_t)nr;
    for (int i = 0; i < 6; i++)
        regs->regs[i] = args[i];
}

long registers_result(const struct user_regs_struct *regs)
{
    return (long)regs->regs[0];
}
