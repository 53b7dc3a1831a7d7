/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What tests of guests' registers have in common. */
#ifndef SELFTESTS_TEST_GUEST_H
#define SELFTESTS_TEST_GUEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "../../kmod/guest/guest.h"

#define EN	BIT_ULL(22)
#define INT	BIT_ULL(20)
#define OS	BIT_ULL(17)
#define USR	BIT_ULL(16)

/* MSR @msr is a register of @kind, of counter @index where it is one counter's. */
static inline void expect(const struct guest_pmu *pmu, u32 msr, enum guest_reg_kind kind,
			  unsigned int index)
{
	struct guest_reg reg = vpmu_guest_decode(pmu, msr);

	assert_int_equal(reg.kind, kind);
	if (kind != GUEST_REG_NONE)
		assert_int_equal(reg.index, index);
}

#endif
