#!/bin/sh
# Compiles step.c with the header of a bundle, and prints in bytes what it takes: its code, its tables, its stack (the
# frames of all its functions, as if each called the next) and every function that it calls and does not bring.
#
#   microcontroller/measure.sh bundles/baked gcc
#   microcontroller/measure.sh bundles/baked arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16
set -eu
bundle=$1
shift
here=$(dirname "$0")
made=$bundle/$1
mkdir -p "$made"
"$@" -std=c99 -Os -ffreestanding -Wall -Wextra -Werror=stack-usage=512 -fstack-usage \
  -I "$bundle" -c "$here/step.c" -o "$made/step.o"
tool() { "$compiler" -print-prog-name="$1"; }
compiler=$1
section() { "$(tool size)" -A "$made/step.o" | awk -v name="$1" '$1 == name { size = $2 } END { print size + 0 }'; }
stack=$(awk '{ bytes += $(NF - 1) } END { print bytes }' "$made/step.su")
calls=$("$(tool nm)" -u "$made/step.o" | awk '{ printf "%s%s", space, $2; space = " " }')
echo "code $(section .text), tables $(section .rodata), stack $stack, data $(($(section .data) + $(section .bss))), calls ${calls:-nothing}"
