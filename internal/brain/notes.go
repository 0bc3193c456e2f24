package brain

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/rocketgpt/orchestrator/internal/brain/rank"
	"github.com/rocketgpt/orchestrator/internal/brain/repomap"
	"github.com/rocketgpt/orchestrator/internal/brain/terms"
	"github.com/rocketgpt/orchestrator/internal/glob"
	"github.com/rocketgpt/orchestrator/internal/prompt"
)

// Limits of what is said about a query.
const (
	// maxChecked is the number of different words of a query above which it is a text, whose words need
	// not all occur in the repository.
	maxChecked = 12
	// maxUnknown is the number of words without an occurrence that are looked at.
	maxUnknown = 3
	// minCorrected is the number of letters from which a word is compared with others.
	minCorrected = 4
	// maxNamesShown is the number of languages or directories that a note lists.
	maxNamesShown = 12
)

// inPaths returns a function that says whether a path matches a pattern. A pattern without a slash
// matches in all directories, and a directory matches all that is in it.
func inPaths(pattern string) func(name string) bool {
	pattern = strings.TrimPrefix(strings.TrimPrefix(pattern, "./"), "/")
	dir := strings.TrimSuffix(pattern, "/")
	return func(name string) bool {
		return glob.Match(pattern, name) || glob.Match(dir+"/**", name) ||
			!strings.Contains(pattern, "/") && glob.Match(pattern, path.Base(name))
	}
}

// inLang returns a function that says whether a document has a language, given by its name or by the
// extension of its files.
func (v View) inLang(lang string) func(doc uint32) bool {
	return func(doc uint32) bool {
		return strings.EqualFold(v.Corpus.Lang(doc), lang) ||
			strings.EqualFold(strings.TrimPrefix(path.Ext(v.Corpus.Path(doc)), "."), strings.TrimPrefix(lang, "."))
	}
}

// anyDoc says whether a document is accepted.
func (v View) anyDoc(accept func(doc uint32) bool) bool {
	for doc := range uint32(v.Corpus.Docs()) {
		if accept(doc) {
			return true
		}
	}
	return false
}

// ofFilter says which condition of a query no file meets, if there is one.
func (v View) ofFilter(q Query) []string {
	var notes []string
	if q.Lang != "" && !v.anyDoc(v.inLang(q.Lang)) {
		notes = append(notes, fmt.Sprintf("No indexed file is in the language %q. Languages of this repository: %s.", q.Lang, v.languages()))
	}
	if q.Paths != "" {
		in := inPaths(q.Paths)
		if !v.anyDoc(func(doc uint32) bool { return in(v.Corpus.Path(doc)) }) {
			notes = append(notes, fmt.Sprintf("No indexed file matches the paths %q. At the top of this repository: %s.", q.Paths, v.top()))
		}
	}
	if accept := v.accept(q); len(notes) == 0 && accept != nil && !v.anyDoc(accept) {
		notes = append(notes, fmt.Sprintf("No indexed file in the language %q matches the paths %q.", q.Lang, q.Paths))
	}
	return notes
}

// languages lists the languages of the repository, those with most files first.
func (v View) languages() string {
	counts := map[string]int{}
	for doc := range uint32(v.Corpus.Docs()) {
		counts[v.Corpus.Lang(doc)]++
	}
	return largest(counts)
}

// top lists the directories and files at the top of the repository, the largest first.
func (v View) top() string {
	counts := map[string]int{}
	for doc := range uint32(v.Corpus.Docs()) {
		name, _, inside := strings.Cut(v.Corpus.Path(doc), "/")
		if name = prompt.ShownPath(name); inside {
			name += "/"
		}
		counts[name]++
	}
	return largest(counts)
}

// largest lists the names with the largest numbers.
func largest(counts map[string]int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	if more := len(names) - maxNamesShown; more > 0 {
		names = append(names[:maxNamesShown], fmt.Sprintf("and %d more", more))
	}
	return cmp.Or(strings.Join(names, ", "), "nothing")
}

// understood returns the text to search for: that of the query with similar words for those that occur
// nowhere. The notes say so.
func (v View) understood(ctx context.Context, q Query) (text string, notes []string, err error) {
	unknown, searchable, err := v.unknown(q.Text)
	switch {
	case err != nil:
		return "", nil, err
	case !searchable:
		return q.Text, []string{"The query has no word to search for: single characters, long numbers and words such as \"the\" do not count."}, nil
	}
	text = q.Text
	for _, word := range unknown {
		similar, err := v.similar(ctx, word)
		switch {
		case err != nil:
			return "", nil, err
		case similar == "":
			notes = append(notes, fmt.Sprintf("No indexed file has %q.", word))
		default:
			notes = append(notes, fmt.Sprintf("No indexed file has %q; searched for %q as well.", word, similar))
			text += " " + similar
		}
	}
	return text, notes, nil
}

// unknown returns the words of a short text that occur in no file. searchable says whether the text
// has anything to search for.
func (v View) unknown(text string) (unknown []string, searchable bool, err error) {
	words := strings.FieldsFunc(text, betweenWords)
	slices.Sort(words)
	different := slices.Compact(slices.Clone(words))
	for _, word := range different {
		term := rank.WholeTerm(word)
		if term == "" || len(word) > 2*terms.MaxLength {
			continue
		}
		searchable = true
		if len(different) > maxChecked {
			return nil, true, nil
		}
		if len(unknown) == maxUnknown || strings.ContainsAny(word, "0123456789") {
			continue
		}
		postings, err := v.Corpus.Postings(term)
		if err != nil {
			return nil, false, fmt.Errorf("look up %q: %w", term, err)
		}
		if len(postings) == 0 {
			unknown = append(unknown, repomap.Line(word))
		}
	}
	return unknown, searchable, nil
}

// similar returns the word of the repository that differs from an unknown one by one letter that is
// missing, superfluous, wrong, or swapped with the next one: the one that most files have, definitions
// first. It returns "" if there is none.
func (v View) similar(ctx context.Context, word string) (string, error) {
	term := rank.WholeTerm(word)
	if len([]rune(term)) < minCorrected {
		return "", nil
	}
	var best rank.Posting
	var found string
	var most [2]int
	for _, candidate := range edits(term) {
		postings, err := v.Corpus.Postings(candidate)
		if err != nil {
			return "", fmt.Errorf("look up %q: %w", candidate, err)
		}
		defining := 0
		first := rank.Posting{}
		for i, p := range postings {
			if i == 0 || p.Count[rank.FieldSymbol] > 0 && defining == 0 {
				first = p
			}
			if p.Count[rank.FieldSymbol] > 0 {
				defining++
			}
		}
		if n := [2]int{defining, len(postings)}; len(postings) > 0 && slices.Compare(n[:], most[:]) > 0 {
			best, found, most = first, candidate, n
		}
	}
	if found == "" {
		return "", nil
	}
	return v.written(ctx, best.Doc, found)
}

// written returns a word of a document as it is written there, given its term.
func (v View) written(ctx context.Context, doc uint32, term string) (string, error) {
	contents, err := v.Contents(ctx, []uint32{doc})
	if err != nil {
		return "", fmt.Errorf("read %s: %w", v.Corpus.Path(doc), err)
	}
	for word := range strings.FieldsFuncSeq(string(contents[0])+" "+v.Corpus.Path(doc), betweenWords) {
		if len(word) <= 2*terms.MaxLength && rank.WholeTerm(word) == term {
			return repomap.Line(word), nil
		}
	}
	return term, nil
}

// betweenWords says whether a character separates words.
func betweenWords(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// edits returns the texts that differ from a term by one edit.
func edits(term string) []string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	var out []string
	for i := 0; i <= len(term); i++ {
		before, after := term[:i], term[i:]
		if after != "" {
			out = append(out, before+after[1:])
		}
		if len(after) > 1 {
			out = append(out, before+after[1:2]+after[:1]+after[2:])
		}
		for _, c := range letters {
			out = append(out, before+string(c)+after)
			if after != "" {
				out = append(out, before+string(c)+after[1:])
			}
		}
	}
	return out
}
