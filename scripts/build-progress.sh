# Defines progress for scripts that build large programs; it is sourced.

# progress TOTAL: reads what `go build -v` prints, which is the name of each package when its turn
# comes, and shows how many of TOTAL packages are left, and about how long they take.
progress() {
	local total=$1 n=0 shown=0 began=$SECONDS line
	while IFS= read -r line; do
		if [[ $line == *[\ :]* ]]; then # a message
			printf '%s\n' "$line" >&2
			continue
		fi
		n=$((n + 1))
		if [ -t 1 ]; then
			printf '\rCompiling package %d of %d, about %d s left \033[K' $n "$total" $(((SECONDS - began) * (total - n) / n))
		elif [ $((n * 10 / total)) -gt $shown ]; then
			shown=$((n * 10 / total))
			printf 'Compiling package %d of %d, about %d s left\n' $n "$total" $(((SECONDS - began) * (total - n) / n))
		fi
	done
	[ ! -t 1 ] || printf '\n'
}
