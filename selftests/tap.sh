# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# TAP output for test scripts: source it, call ok/not_ok/check, end with finish.

tap_n=0
tap_failed=0

ok() {
	tap_n=$((tap_n + 1))
	echo "ok $tap_n - $*"
}

not_ok() {
	tap_n=$((tap_n + 1))
	tap_failed=$((tap_failed + 1))
	echo "not ok $tap_n - $*"
}

note() {
	echo "# $*"
}

# is NAME GOT EXPECTED
is() {
	if [ "$2" = "$3" ]; then
		ok "$1 ($2)"
	else
		not_ok "$1"
		note "got '$2', expected '$3'"
	fi
}

# within NAME GOT LOW HIGH, integers
within() {
	if [ -n "$2" ] && [ "$2" -ge "$3" ] && [ "$2" -le "$4" ]; then
		ok "$1 ($2)"
	else
		not_ok "$1"
		note "got '$2', expected $3 to $4"
	fi
}

finish() {
	echo "1..$tap_n"
	[ "$tap_failed" -eq 0 ]
	exit
}
