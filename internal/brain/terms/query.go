package terms

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Limits of a question. What exceeds them is left out, the end of the text first.
const (
	// MaxQuery is the number of bytes of a text that Query looks at.
	MaxQuery = 64 << 10
	// MaxTerms is the number of different terms of a question.
	MaxTerms = 256
	// MaxNamed is the number of identifiers, paths and frames of a question, of each kind.
	MaxNamed = 64
)

// Term is a term of a question.
type Term struct {
	Text string
	// Count is how often it occurs in the question.
	Count int
	// Head says that it occurs in the first line.
	Head bool
}

// Frame is a place that a stack trace or a compiler's message names.
type Frame struct {
	Path string
	Line int // 0: unknown
}

// QueryTerms is what a question asks for.
type QueryTerms struct {
	// Terms are the different terms, in the order of their first occurrence.
	Terms []Term
	// Identifiers are words that are code and not prose, as written, without qualifiers: from
	// `Parser.parse_args()` both Parser and parse_args. Without duplicates.
	Identifiers []string
	// Quoted are the identifiers that stand between backquotes.
	Quoted []string
	// Defined are the names of definitions that the question quotes: Foo of func Foo. After words that
	// prose has too, such as class, only names between quotes or with the form of code count.
	Defined []string
	// Paths are names of files and directories as written, with slashes, without duplicates. A name
	// of a module with dots (pkg.module.name) is also here, with slashes.
	Paths []string
	// Frames are the lines of stack traces and messages of compilers.
	Frames []Frame
}

var (
	// quotedCode is code between backquotes.
	quotedCode = regexp.MustCompile("`([^`\n]{1,200})`")
	// pathLike is a path with a slash, or a file's name.
	pathLike = regexp.MustCompile(`[\w.@~+-]*(?:[\\/][\w.@+\[\]-]+)+|[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w{0,7}\b`)
	// frameLike is path:line, or the form of Python's tracebacks.
	frameLike = regexp.MustCompile(`File "([^"\n]{1,300})", line (\d{1,7})|([\w.@~+/\\-]+\.[A-Za-z]\w{0,7})[:(](\d{1,7})`)
	// codeWord is a word with possible qualifiers.
	codeWord = regexp.MustCompile(`[A-Za-z_$@][\w$]*(?:(?:\.|::|->|#)[A-Za-z_]\w*)*[!?]?(?:\(\))?`)
	// definition is the beginning of a definition, perhaps between quotes.
	definition = regexp.MustCompile("([`'\"])?\\b(func|fn|def|function|class|struct|interface|trait|enum|type|module|macro)[ \\t]+(?:\\([^()\n]{0,80}\\)[ \\t]*)?([A-Za-z_]\\w*)")
	// qualifier separates the names of a qualified name.
	qualifier = regexp.MustCompile(`\.|::|->|#`)
)

// Query returns what a question asks for. The question is any text: a goal, an issue, the message of
// a commit, the output of a failed test.
func Query(text string) QueryTerms {
	if len(text) > MaxQuery {
		text = text[:MaxQuery]
	}
	var q QueryTerms
	q.addTerms(text)
	q.addFrames(text)
	q.addPaths(text)
	q.addIdentifiers(text)
	q.addDefined(text)
	return q
}

func (q *QueryTerms) addTerms(text string) {
	index := map[string]int{}
	head, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	inHead := true
	add := func(term []byte) {
		i, ok := index[string(term)]
		if !ok {
			if len(q.Terms) == MaxTerms {
				return
			}
			i = len(q.Terms)
			index[string(term)] = i
			q.Terms = append(q.Terms, Term{Text: string(term)})
		}
		q.Terms[i].Count++
		q.Terms[i].Head = q.Terms[i].Head || inHead
	}
	Split([]byte(head), add)
	inHead = false
	Split([]byte(rest), add)
}

func (q *QueryTerms) addFrames(text string) {
	for _, m := range frameLike.FindAllStringSubmatch(text, MaxNamed) {
		f := Frame{Path: m[1]}
		number := m[2]
		if f.Path == "" {
			f.Path, number = m[3], m[4]
		}
		f.Path = cleanPath(f.Path)
		f.Line, _ = strconv.Atoi(number) // at most 7 digits
		if f.Path != "" {
			q.Frames = append(q.Frames, f)
		}
	}
}

func (q *QueryTerms) addPaths(text string) {
	seen := map[string]bool{}
	for _, p := range pathLike.FindAllString(text, 4*MaxNamed) {
		p = cleanPath(p)
		if p == "" || seen[p] || strings.HasPrefix(p, "http") || len(q.Paths) == MaxNamed {
			continue
		}
		seen[p] = true
		q.Paths = append(q.Paths, p)
	}
}

// cleanPath makes a path as it is written in a text one with slashes, relative to an unknown directory.
func cleanPath(p string) string {
	p = strings.ReplaceAll(p, `\`, "/")
	for strings.HasPrefix(p, "./") || strings.HasPrefix(p, "../") || strings.HasPrefix(p, "/") {
		_, p, _ = strings.Cut(p, "/")
	}
	return strings.TrimRight(p, "./-")
}

func (q *QueryTerms) addIdentifiers(text string) {
	seen, quoted := map[string]bool{}, map[string]bool{}
	add := func(word string, inQuotes bool) {
		for _, name := range qualifier.Split(strings.TrimSuffix(word, "()"), -1) {
			name = strings.Trim(name, "$@!?")
			if len(name) < MinLength || len(name) > 4*MaxLength {
				continue
			}
			if !seen[name] && len(q.Identifiers) < MaxNamed {
				seen[name] = true
				q.Identifiers = append(q.Identifiers, name)
			}
			if inQuotes && !quoted[name] && len(q.Quoted) < MaxNamed {
				quoted[name] = true
				q.Quoted = append(q.Quoted, name)
			}
		}
	}
	for _, m := range quotedCode.FindAllStringSubmatch(text, MaxNamed) {
		for _, word := range codeWord.FindAllString(m[1], MaxNamed) {
			add(word, true)
		}
	}
	for _, word := range codeWord.FindAllString(text, -1) {
		if isCode(word) {
			add(word, false)
		}
	}
}

func (q *QueryTerms) addDefined(text string) {
	for _, m := range definition.FindAllStringSubmatch(text, MaxNamed) {
		quote, keyword, name := m[1], m[2], m[3]
		ofCode := keyword == "func" || keyword == "fn" || keyword == "def"
		if len(name) >= MinLength && len(name) <= 4*MaxLength && (ofCode || quote != "" || isCode(name)) && !slices.Contains(q.Defined, name) {
			q.Defined = append(q.Defined, name)
		}
	}
}

// isCode says whether a word looks like code rather than prose: it has a capital after a small
// letter, an underscore, a qualifier or a call's parentheses.
func isCode(word string) bool {
	if strings.HasSuffix(word, "()") || strings.ContainsAny(strings.TrimRight(word, "!?"), "_$@#:>!?") {
		return true
	}
	for i := 1; i < len(word); i++ {
		if upper(word[i]) && lower(word[i-1]) || word[i] == '.' && i+1 < len(word) {
			return true
		}
	}
	return false
}
