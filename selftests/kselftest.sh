#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The tests as kselftest has them: installed in a folder that is moved elsewhere, they run on an emulated host that
# doesn't see the source tree, and are the same tests as there. And what run_kselftest.sh makes of tests that fail, are
# skipped, hang or aren't there. TAP.
#
#	kselftest.sh		on this machine
#	kselftest.sh inside PROJECT
#				on the emulated host, in the folder that both see

few=(kvm:cpuid kvm:hypercall kvm:privileges host:registers.sh)

if [ "${1:-}" != inside ]; then
	cd "$(dirname "$(readlink -f "$0")")/.." || exit
	shared=$(mktemp -d) || exit
	chmod 755 "$shared"
	trap 'rm -rf "$shared" "$PWD/build/kselftest"' EXIT
	rm -rf build/kselftest
	tools/testbed/chroot -- make -s -C selftests install OUTPUT="$PWD/build" INSTALL_PATH="$PWD/build/kselftest" || exit
	mv build/kselftest "$shared/elsewhere"
	cp selftests/kselftest.sh "$shared/"
	tools/testbed/run --share "$shared" host -- "$shared/kselftest.sh" inside "$PWD"
	exit
fi

project=$2
cd "$(dirname "$0")" || exit
shared=$PWD installed=$PWD/elsewhere
# shellcheck source=selftests/tap.sh
. "$installed/tap.sh"

# same NAME GOT EXPECTED: lines
same() {
	if [ "$2" = "$3" ]; then
		ok "$1"
	else
		not_ok "$1"
		diff <(echo "$3") <(echo "$2") | sed 's/^/# /'
	fi
}
tree() {
	make -s -C "$project/selftests" OUTPUT="$project/build" run_tests "$@"
}
results() {
	grep -E '^(ok|not ok|#|1\.\.)'
}
read -ra options <<<"${few[*]/#/-t }"

# While the source tree is there
tree OPTIONS=-d >"$shared/tree-all"
tree OPTIONS=-d CHANGE_HOST=1 >"$shared/tree-more"
tree OPTIONS="${options[*]}" CHANGE_HOST=1 >"$shared/tree-few"
umount -l "$project" || exit
is "the source tree is gone" "$(ls "$project")" ""

cd "$installed" || exit
all=$(./run_kselftest.sh -d)
more=$(CHANGE_HOST=1 ./run_kselftest.sh -d)
same "the same tests, skipped for the same reasons" "$all" "$(sed "s|$project/build|$installed|g" "$shared/tree-all")"
same "the same with CHANGE_HOST=1" "$more" "$(sed "s|$project/build|$installed|g" "$shared/tree-more")"
is "all tests of the list" "$(grep -c 'selftests: ' <<<"$all")" "$(./run_kselftest.sh -l | wc -l)"
within "tests that would run" "$(grep -c 'would run$' <<<"$all")" 10 100
is "those that change the host" "$(grep -c 'CHANGE_HOST=1 runs it' <<<"$all") $(grep -c 'CHANGE_HOST=1' <<<"$more")" \
	"$(grep -cE 'kvm: (cpu_hotplug|attach|defaults|open|privileges|profile|reads|stacks|throttled|watched) |host: [^#]*# SKIP may' <<<"$all") 0"
is "one of them" "$(grep -o 'attach .*' <<<"$all")" \
	"attach # SKIP changes which VMs of others get a PMU: CHANGE_HOST=1 runs it"

CHANGE_HOST=1 ./run_kselftest.sh "${options[@]}" >"$shared/few"
is "some of them, run: status" $? 0
same "their results" "$(results <"$shared/few")" "$(results <"$shared/tree-few")"
sed -n 's/^ok/# ok/p; s/^not ok/# &/p' "$shared/few"
is "their own results" "$(grep -c '^  ok ' "$shared/few")" "$(grep -c '^  ok ' "$shared/tree-few")"
within "these are" "$(grep -c '^  ok ' "$shared/few")" 20 1000
is "each one's plan and version" "$(grep -c '^  1\.\.[0-9]' "$shared/few") $(grep -c '^  KTAP version 1$' "$shared/few")" \
	"${#few[@]} ${#few[@]}"

# Tests that do what no test should
odd=$shared/odd
mkdir -p "$odd/odd" && cp run_kselftest.sh "$odd/"
# test NAME COMMAND...
test_of() {
	printf '#!/bin/sh\n%s\n' "$2" >"$odd/odd/$1"
	chmod +x "$odd/odd/$1"
	echo "odd:$1" >>"$odd/kselftest-list.txt"
}
test_of good "echo 'TAP version 13'; echo 'ok 1 - fine'; echo 'a line'; echo '# comment'; echo 1..1"
test_of bad "echo 'not ok 1 - bad'; echo 1..1; exit 3"
test_of skip "echo '1..0 # SKIP no such thing'; exit 4"
test_of hangs "echo 'ok 1 - so far'; sleep 1234 & sleep 1235"
test_of deaf "trap '' TERM; sleep 1236; sleep 1237"
echo odd:missing >>"$odd/kselftest-list.txt"
cat >"$odd/odd/settings" <<-END
	# in seconds
	timeout=4
END
expected='KTAP version 1
1..6
  KTAP version 1
  # Subtest: selftests: odd: good
  ok 1 - fine
  # a line
  # comment
  1..1
ok 1 selftests: odd: good
  KTAP version 1
  # Subtest: selftests: odd: bad
  not ok 1 - bad
  1..1
not ok 2 selftests: odd: bad # exit=3
  KTAP version 1
  # Subtest: selftests: odd: skip
  1..0 # SKIP no such thing
ok 3 selftests: odd: skip # SKIP
  KTAP version 1
  # Subtest: selftests: odd: hangs
  ok 1 - so far
not ok 4 selftests: odd: hangs # TIMEOUT 4 seconds
  KTAP version 1
  # Subtest: selftests: odd: deaf
not ok 5 selftests: odd: deaf # TIMEOUT 4 seconds
  KTAP version 1
  # Subtest: selftests: odd: missing
  # no program '$odd/odd/missing'
not ok 6 selftests: odd: missing # exit=1
# Totals: pass:1 fail:4 xfail:0 xpass:0 skip:1 error:0'
export CHANGE_HOST=1
got=$("$odd/run_kselftest.sh" 2>&1)
is "odd tests: status" $? 1
same "what it makes of them" "$got" "${expected//\'/}"
is "nothing of them is left" "$(pgrep -fa 'sleep 123[4-7]')" ""
got=$("$odd/run_kselftest.sh" -o 1 -t odd:hangs)
is "another time limit" "$(grep ^not <<<"$got")" "not ok 1 selftests: odd: hangs # TIMEOUT 1 seconds"
# Who ends the runner ends its test. A group of its own, as a terminal's ^C has.
setsid "$odd/run_kselftest.sh" -o 100 -t odd:hangs >/dev/null &
runner=$!
until pgrep -f 'sleep 1235' >/dev/null; do
	sleep 0.1
done
kill -TERM -- -$runner
wait $runner
is "the runner was ended: status" $? 143
for ((i = 0; i < 50; i++)); do
	pgrep -f 'sleep 123[4-7]' >/dev/null || break
	sleep 0.1
done
is "nothing of its test is left" "$(pgrep -fa 'sleep 123[4-7]')" ""
got=$("$odd/run_kselftest.sh" --summary -c odd -o 1)
is "the summary has results only" "$(grep -c '^ ' <<<"$got") $(grep -cE '^(not )?ok' <<<"$got")" "0 6"
is "the rest is in a file" "$(grep -c '^  ' "$odd/output.log")" "$(grep -c '^  ' <<<"$expected")"
"$odd/run_kselftest.sh" -t odd:skip >/dev/null
is "nothing could run: status" $? 4
is "no such test" "$("$odd/run_kselftest.sh" -t odd:none 2>&1)" "run_kselftest.sh: no test 'odd:none' (-l lists them)"
is "no such collection" "$("$odd/run_kselftest.sh" -c even 2>&1)" "run_kselftest.sh: no collection 'even'"
is "no such limit" "$("$odd/run_kselftest.sh" -o 1m 2>&1)" "run_kselftest.sh: a time limit is a number of seconds, not '1m'"
is "not root" "$(setpriv --reuid=nobody --clear-groups "$odd/run_kselftest.sh" -t odd:good | grep ^ok)" \
	"ok 1 selftests: odd: good # SKIP needs root"
finish
