package pin

// rustLanguage is Rust.
var rustLanguage = language{
	name: "rust", extensions: []string{".rs"}, besideCode: true, ignoreHelpers: true,
	runs: func(string) bool { return true },
	parse: func(s *suite, data []byte) {
		parseAnnotated(s, scanBraces(data, dialect{raw: true, nested: true}), annotated{attribute: rustAttribute})
	},
}

// rustAttribute takes #[test] and #![cfg(test)].
func rustAttribute(src *source, i int) (span, int) {
	open := i + 1
	if src.at(open).is("!") {
		open++
	}
	if !src.at(i).is("#") || !src.at(open).is("[") {
		return span{}, 0
	}
	end := src.close(open) + 1
	return span{open + 1, end - 1}, end
}
