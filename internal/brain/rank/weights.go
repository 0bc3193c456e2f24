package rank

// Weights are the constants of the ranking. test/retrieval tunes them on one half of its repositories
// and measures them on the other.
type Weights struct {
	// K1 is how fast repeated occurrences of a word stop counting.
	K1 float64
	// Field is the weight of an occurrence in each field.
	Field [Fields]float64
	// B is how much the length of each field counts, from 0 to 1.
	B [Fields]float64
	// Head is the weight of a word of the first line, compared with one of the rest.
	Head float64
	// Identifier is the weight of a word that is a whole identifier of several parts.
	Identifier float64
	// K is the constant of the fusion: the larger it is, the less the first ranks stand out.
	K float64
	// Signal is the weight of each signal.
	Signal [Signals]float64
	// Depth is the number of files of each signal's list that count.
	Depth int
	// Seeds is the number of first candidates whose neighbours are looked at.
	Seeds int
	// Words is the number of words of a question that are looked up, the most telling ones.
	Words int
}

// Tuned are the weights in use.
func Tuned() Weights {
	return Weights{
		K1:         1.5,
		Field:      [Fields]float64{FieldPath: 4, FieldSymbol: 3, FieldBody: 1, FieldProse: 1},
		B:          [Fields]float64{FieldPath: 0.5, FieldSymbol: 0.36, FieldBody: 0.7, FieldProse: 0.56},
		Head:       2,
		Identifier: 1.5,
		K:          5,
		Signal: [Signals]float64{
			SignalKeywords: 3, SignalNamed: 3, SignalDefined: 8, SignalPath: 2.4, SignalSymbol: 0.7, SignalPast: 3, SignalTopic: 1.5,
			SignalActivity: 0.6, SignalVectors: 1.5, SignalTogether: 0.7, SignalImports: 0.3, SignalPair: 0.85,
			SignalNear: 0.3,
		},
		Depth: 200,
		Seeds: 10,
		Words: 48,
	}
}
