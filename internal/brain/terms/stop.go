package terms

import "strings"

// maxStop is the length of the longest stop word.
const maxStop = 7

// stopWords are common English words that do not tell files apart.
var stopWords = func() map[string]struct{} {
	words := map[string]struct{}{}
	for w := range strings.FieldsSeq(`
		a about after again all also am an and any are aren as at be because been before being below
		both but by can cannot could did didn do does doesn doing don down during each else few for
		from further had has have having he her here hers him his how however if in into is isn it its
		just let ll may me might more most must my no nor not now of off on once only or other our out
		over own same she should so some still such than that the their them then there these they
		this those through to too under until up upon us use used very via was we were what when where
		which while who why will with without would yes you your`) {
		words[w] = struct{}{}
	}
	return words
}()

func stopWord(w []byte) bool {
	if len(w) > maxStop {
		return false
	}
	_, ok := stopWords[string(w)]
	return ok
}
