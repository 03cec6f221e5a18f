#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# fp16.sh CHECKKERN [ARG]...: runs checkkern on an emulated CPU with AVX-512 FP16. The emulator
# Bochs boots Linux with checkkern as the first process. The script needs bochs, vgabios, xorriso,
# isolinux, syslinux-common, cpio (packages of Debian 13) and any kernel. It exits with 77 (skipped)
# if one of them is missing. FP16_KERNEL names a kernel.
set -eu

checkkern=$1
shift
kernel=${FP16_KERNEL:-}
for found in /boot/vmlinuz-*; do
    kernel=${kernel:-$found}
done
bios=/usr/share/bochs/BIOS-bochs-latest
vga=/usr/share/bochs/VGABIOS-lgpl-latest
loader=/usr/lib/ISOLINUX/isolinux.bin
menu=/usr/lib/syslinux/modules/bios/ldlinux.c32
bochs=$(command -v bochs-bin || command -v bochs) || bochs=no-bochs
for need in "$bochs" xorriso cpio unshare "$bios" "$vga" "$loader" "$menu" "$kernel"; do
    command -v "$need" >/dev/null || [ -r "$need" ] || {
        echo "skipped: no $need"
        exit 77
    }
done
# Bochs serves its screen on the network, so it gets its own network namespace.
alone="unshare -n"
$alone true 2>/dev/null || alone="unshare -rn"
if ! $alone true 2>/dev/null || ! "$bochs" --help cpu 2>&1 | grep -q sapphire_rapids; then
    echo "skipped: no namespaces, or Bochs knows no CPU with AVX-512 FP16"
    exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
mkdir -p "$work/first" "$work/cd/isolinux"
cp "$checkkern" "$work/first/checkkern"
for library in $(ldd "$checkkern" 2>/dev/null | grep -o '/[^ ]*'); do
    mkdir -p "$work/first$(dirname "$library")"
    cp -L "$library" "$work/first$library"
done
(cd "$work/first" && find . | cpio -o -H newc --quiet) >"$work/cd/isolinux/initrd"
cp "$kernel" "$work/cd/isolinux/vmlinuz"
cp "$loader" "$menu" "$work/cd/isolinux/"
# Linux and Bochs disagree on how the state of some CPU units is saved. These options turn the units
# off.
without="mitigations=off no5lvl nopku clearcpuid=lass,uintr,ibt,user_shstk,xsaves,xsavec,xsaveopt"
cat >"$work/cd/isolinux/isolinux.cfg" <<EOF
default linux
prompt 0
label linux
kernel vmlinuz
append initrd=initrd rdinit=/checkkern console=ttyS0 nosmp lpj=1000000 panic=-1 reboot=t $without -- --only cpu --rung avx512fp16 $*
EOF
xorriso -as mkisofs -quiet -o "$work/iso" -b isolinux/isolinux.bin -c isolinux/boot.cat \
    -no-emul-boot -boot-load-size 4 -boot-info-table "$work/cd" 2>/dev/null
cat >"$work/bochsrc" <<EOF
display_library: rfb, options="timeout=0"
megs: 512
cpu: model=sapphire_rapids, ips=40000000, reset_on_triple_fault=0
romimage: file=$bios, options=fastboot
vgaromimage: file=$vga
ata0-master: type=cdrom, path=$work/iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$work/out
log: $work/log
panic: action=fatal
EOF
# Linux reboots by a triple fault here, and Bochs ends at a triple fault.
$alone "$bochs" -q -f "$work/bochsrc" >"$work/screen" 2>&1 </dev/null || true
# Linux panics when its first process ends. The message of this panic may cut the last line.
sed -n 's/\[.*Kernel panic.*//; /^\(seed\|ok\|not ok\|checkkern\)/p' "$work/out"
grep -aq 'exitcode=0x00000000' "$work/out" || {
    echo "checkkern failed, or did not run"
    tail -n 5 "$work/log"
    exit 1
}
