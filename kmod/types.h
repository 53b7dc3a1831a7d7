/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's integer types, also where the pure parts are tested in user space. */
#ifndef VPMU_TYPES_H
#define VPMU_TYPES_H

#ifdef __KERNEL__
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/types.h>
#else
#include <errno.h>
#include <stdbool.h>
#include <linux/types.h>

typedef __u8 u8;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;

#define BIT(n)		(1UL << (n))
#define BIT_ULL(n)	(1ULL << (n))
#endif

#endif
