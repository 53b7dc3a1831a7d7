# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The mistakes that mutants makes in the module's sources: source it. "list" is mutants.list.
# shellcheck disable=SC2154 # its

# replace FILE OLD NEW: lines that are OLD but for their indent; awk's status tells whether there is one
replace() {
	awk -v old="$2" -v new="$3" '
		{ line = $0; sub(/^[ \t]+/, "", line) }
		line == old { print substr($0, 1, length($0) - length(line)) new; n++; next }
		{ print }
		END { exit !n }' "$1" >"$1.new" && mv "$1.new" "$1"
}

# Of the kernel's style: a function's name is in a line that begins in the first column, its body between braces there
# shellcheck disable=SC2016 # awk's fields
function_of='
	/^[a-z].*\(/ {
		head = substr($0, 1, index($0, "(") - 1)
		match(head, /[A-Za-z_0-9]+$/)
		name = substr(head, RSTART)
		type = substr(head, 1, RSTART - 1)
		gsub(/static |noinline |notrace |inline |__always_|asmlinkage /, "", type)
	}'

# return_at_once FILE FUNCTION: with 0, if it has a value
return_at_once() {
	awk -v wanted="$2" "$function_of"'
		{ print }
		/^\{/ && name == wanted {
			print type == "void " ? "\treturn;" : type ~ /^struct [a-z_]+ $/ ? "\treturn (" type "){ };" : "\treturn 0;"
			n++
		}
		END { exit !n }' "$1" >"$1.new" && mv "$1.new" "$1"
}

# other_functions FILE: those of kmod/FILE that no mutant of the list is in
other_functions() {
	awk -v file="$1" 'FNR == 1 { files++ }
		files == 1 && /^[a-z]/ { of = $2 }
		files == 1 && /^- / && of == file { mutants[substr($0, 3)] }
		files == 1 && $1 == "unnoticed" && of == file { mutants[$3] }
		files == 1 { next }'"$function_of"'
		/^\{/ { inside = 1; if (name in mutants) has[name] }
		{ line = $0; sub(/^[ \t]+/, "", line) }
		inside && line in mutants { has[name] }
		/^}/ && inside { inside = 0; if (!(name in has)) print name; has[name] }' "$list" "kmod/$1"
}

# function_text FILE FUNCTION LINE: FUNCTION, or if that is empty, those that have LINE, as they are in FILE; all of FILE
# if none does
function_text() {
	awk -v wanted="$2" -v line="$3" "$function_of"'
		{ all = all $0 "\n" }
		/^[a-z].*\(/ { text = "" }
		{ text = text $0 "\n" }
		/^\{/ { inside = 1; has = name == wanted }
		{ bare = $0; sub(/^[ \t]+/, "", bare) }
		inside && wanted == "" && bare == line { has = 1 }
		/^}/ && inside { inside = 0; if (has) found = found text }
		END { printf "%s", found == "" ? all : found }' "$1"
}
