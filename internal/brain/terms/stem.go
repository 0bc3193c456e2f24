package terms

// minStem is the number of letters that a stem keeps at least.
const minStem = 3

// Stem reduces a word in lower case of four ASCII letters or more to a stem that its plural and its
// other common forms share: cache, caches, caching and cached all give cach. The result need not be a
// word. It is a part of the given slice, whose content may change.
func Stem(w []byte) []byte {
	if len(w) < 4 {
		return w
	}
	for _, b := range w {
		if !lower(b) {
			return w
		}
	}
	w = stemPlural(w)
	w = stemVerb(w)
	w = stemNoun(w)
	if n := len(w); n > minStem && w[n-1] == 'e' {
		w = w[:n-1]
	} else if n > minStem && w[n-1] == 'y' && !vowel(w[n-2]) {
		w[n-1] = 'i'
	}
	return w
}

func stemPlural(w []byte) []byte {
	n := len(w)
	switch {
	case w[n-1] != 's' || hasSuffix(w, "ss") || hasSuffix(w, "us") || hasSuffix(w, "is"):
		return w
	case hasSuffix(w, "ies") && n > 4:
		w[n-3] = 'y'
		return w[:n-2]
	case hasSuffix(w, "sses") || hasSuffix(w, "xes") || hasSuffix(w, "ches") || hasSuffix(w, "shes"):
		return w[:n-2]
	}
	return w[:n-1]
}

// stemVerb removes -ing and -ed, and undoes a doubled consonant.
func stemVerb(w []byte) []byte {
	n := len(w)
	switch {
	case hasSuffix(w, "ing") && hasVowel(w[:n-3]):
		n -= 3
	case hasSuffix(w, "ied") && n > 4:
		w[n-3] = 'y'
		return w[:n-2]
	case hasSuffix(w, "ed") && !hasSuffix(w, "eed") && hasVowel(w[:n-2]):
		n -= 2
	default:
		return w
	}
	if n < minStem {
		return w
	}
	if n > minStem && w[n-1] == w[n-2] && !vowel(w[n-1]) && w[n-1] != 'l' && w[n-1] != 's' && w[n-1] != 'z' {
		n--
	}
	return w[:n]
}

// nounEndings are endings of nouns made from verbs, with what remains of them, so that validate,
// validation and validator have one stem.
var nounEndings = []struct{ ending, rest string }{
	{"ization", "iz"}, {"isation", "is"}, {"ation", "at"}, {"ator", "at"}, {"ction", "ct"},
	{"ution", "ut"}, {"ition", "it"}, {"ment", ""}, {"er", ""}, {"ly", ""},
}

// minNounStem keeps short words such as order or layer from losing their endings.
const minNounStem = 4

func stemNoun(w []byte) []byte {
	for _, e := range nounEndings {
		if n := len(w) - len(e.ending); n+len(e.rest) >= minNounStem && hasSuffix(w, e.ending) {
			return w[:n+len(e.rest)]
		}
	}
	return w
}

func hasSuffix(w []byte, suffix string) bool {
	return len(w) >= len(suffix) && string(w[len(w)-len(suffix):]) == suffix
}

func vowel(b byte) bool {
	return b == 'a' || b == 'e' || b == 'i' || b == 'o' || b == 'u'
}

func hasVowel(w []byte) bool {
	for _, b := range w {
		if vowel(b) || b == 'y' {
			return true
		}
	}
	return false
}
