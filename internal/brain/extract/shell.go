package extract

var shell = &language{
	name: "shell", extensions: []string{".sh", ".bash", ".zsh", ".ksh", ".bats"}, names: []string{".bashrc", ".profile", "configure.ac"},
	syntax: syntax{
		lineComments: [2]string{"#"}, double: quoteMultiline, single: quoteMultiline, heredoc: true, newlines: true, dash: true,
	},
	keywords: words(`if then else elif fi for in do done while until case esac function select time return exit local export
		readonly declare typeset unset shift break continue echo printf test set source eval exec cd true false`),
	define: defineShell,
}

func defineShell(s *scan, st statement) block {
	i := st.from
	name := i
	if s.is(i, "function") {
		name = i + 1
	}
	switch {
	case s.kind(name) == tokIdent && (name > i || s.kind(name+1) == '(' && s.closing(name+1) == name+2) && st.end == '{':
		s.add(name, KindFunction, st, true)
	case s.is(i, "source") || s.kind(i) == '.' && i+1 < st.to:
		from, to := i+1, i+1
		for to < st.to && (to == from || s.tokens[to].start == s.tokens[to-1].end) {
			to++
		}
		s.addImport(s.joined(from, to))
	case s.top().kind == blockModule && s.column(i) == 0:
		for s.isAny(i, "export", "readonly", "declare") && i+1 < st.to {
			i++
		}
		if s.kind(i) == tokIdent && s.kind(i+1) == '=' && s.tokens[i+1].start == s.tokens[i].end {
			s.add(i, KindVariable, st, true)
		}
	}
	return block{}
}
