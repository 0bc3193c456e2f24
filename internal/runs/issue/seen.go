package issue

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Limits of what is read of a text. Everyone may write it, so the time that reading it takes must not
// grow with the square of its length: some markup makes a parser look at all that follows.
const (
	maxMarkup     = 64 << 10 // bytes
	maxTricks     = 2000     // beginnings of hidden parts and of definitions
	maxContainers = 16       // marks of lists and quotations at the beginning of a line
)

var (
	// hidden matches the beginning of what browsers do not show of HTML: comments, declarations and
	// instructions.
	hidden = regexp.MustCompile(`<!--|<!\[CDATA\[|<![A-Za-z]|<\?`)
	// costly matches what makes a parser look at all that follows, or may.
	costly = regexp.MustCompile(`<[!?]|\]:`)
	// nested matches the beginning of a line with many marks of lists and quotations.
	nested = regexp.MustCompile(`(?m)^[ \t]*(?:(?:>|(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$))[ \t]*){` + strconv.Itoa(maxContainers) + `}`)
	// delimiterRow matches the line of a table below its header.
	delimiterRow = regexp.MustCompile(`^\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?$`)
	// footnote matches the beginning of a footnote, which is not shown without a reference to it.
	footnote = regexp.MustCompile(`^[ \t]*\[\^[^\]]+\]:`)
	// link matches what makes a link of a text in brackets, plainLink one without marks that may belong
	// to code or to something else.
	link      = regexp.MustCompile(`\][(\[]`)
	plainLink = regexp.MustCompile("^(?:\\]\\([^`()<>\\\\\"']*\\)|\\]\\[[^`\\[\\]\\\\]*\\])")
)

// hiddenEnds are the ends of what begins so. What does not end hides all that follows.
var hiddenEnds = map[string]string{"<!--": "-->", "<![CDATA[": "]]>", "<?": "?>"}

// Seen returns what readers of a text on a forge see: without hidden parts, definitions of links,
// footnotes and invisible characters. Nothing is hidden in code. What is code for one reading of a text and not for
// another, such as that of a table, is none. At most 64 KiB are read.
func Seen(source string) string {
	s, _ := seen(source)
	return s
}

// seen returns what Seen does, and how many bytes at the end were not read.
func seen(source string) (shown string, left int) {
	if len(source) > maxMarkup {
		end := maxMarkup
		for end > maxMarkup-utf8.UTFMax && !utf8.RuneStart(source[end]) {
			end--
		}
		source, left = source[:end], len(source)-end
	}
	s := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n").Replace(strings.ToValidUTF8(source, "�"))
	s = telemetry.Visible(s)
	if !costly.MatchString(s) {
		return s, left
	}
	read := bounded(s)
	left += len(s) - len(read)
	code, gone := markup(read)
	return without(read, append(gone, hiddenIn(read, code, gone)...)), left
}

// bounded returns the beginning of a text that may be parsed.
func bounded(s string) string {
	if at := nested.FindStringIndex(s); at != nil {
		s = s[:at[0]]
	}
	if all := costly.FindAllStringIndex(s, maxTricks+1); len(all) > maxTricks {
		s = s[:all[maxTricks][0]]
	}
	return s
}

// without returns a text without some of its parts.
func without(s string, parts []text.Segment) string {
	slices.SortFunc(parts, func(a, b text.Segment) int { return cmp.Compare(a.Start, b.Start) })
	var out strings.Builder
	done := 0
	for _, p := range parts {
		if p.Start > done {
			out.WriteString(s[done:p.Start])
		}
		done = max(done, p.Stop)
	}
	return out.String() + s[done:]
}

// hiddenIn returns the parts of a text that browsers do not show. None begins in the other ones, which are
// in order.
func hiddenIn(s string, code, gone []text.Segment) (out []text.Segment) {
	others, done := slices.Concat(code, gone), 0
	slices.SortFunc(others, func(a, b text.Segment) int { return cmp.Compare(a.Start, b.Start) })
	for _, m := range hidden.FindAllStringIndex(s, -1) {
		for len(others) > 0 && others[0].Stop <= m[0] {
			others = others[1:]
		}
		if m[0] < done || len(others) > 0 && others[0].Start <= m[0] {
			continue
		}
		end := cmp.Or(hiddenEnds[s[m[0]:m[1]]], ">")
		at := strings.Index(s[m[1]:], end)
		if at < 0 {
			return append(out, text.NewSegment(m[0], len(s)))
		}
		done = m[1] + at + len(end)
		out = append(out, text.NewSegment(m[0], done))
	}
	return out
}

// definitions is the key of the definitions of links that a parser found.
var definitions = parser.NewContextKey()

// definitionParser finds the definitions of links at the beginning of a paragraph, and footnotes.
type definitionParser struct{}

// Transform implements the interface of the parser.
func (definitionParser) Transform(p *ast.Paragraph, reader text.Reader, pc parser.Context) {
	lines := p.Lines()
	before := slices.Clone(lines.Sliced(0, lines.Len()))
	parser.LinkReferenceParagraphTransformer.Transform(p, reader, pc)
	kept := map[int]bool{}
	for i := range lines.Len() {
		kept[lines.At(i).Stop] = true
	}
	found, _ := pc.Get(definitions).([]text.Segment)
	note := false
	for _, l := range before {
		note = note || footnote.Match(l.Value(reader.Source()))
		if note || !kept[l.Stop] {
			found = append(found, text.NewSegment(l.Start, l.Stop))
		}
	}
	pc.Set(definitions, found)
}

// markdown parses what matters for where code is. It has no parsers for emphasis, links and tables, whose
// time or memory grows with the square of the length of a text.
var markdown = sync.OnceValue(func() parser.Parser {
	return parser.NewParser(
		parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithInlineParsers(
			util.Prioritized(parser.NewCodeSpanParser(), 100),
			util.Prioritized(parser.NewAutoLinkParser(), 300),
			util.Prioritized(parser.NewRawHTMLParser(), 400),
		),
		parser.WithParagraphTransformers(util.Prioritized(definitionParser{}, 100)),
	)
})

// markup returns where a text in Markdown is code, in order, and where definitions of links are.
func markup(source string) (code, gone []text.Segment) {
	raw, pc := []byte(source), parser.NewContext()
	root := markdown().Parse(text.NewReader(raw), parser.WithContext(pc))
	gone, _ = pc.Get(definitions).([]text.Segment)
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering || n.Type() != ast.TypeBlock {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			for i := range n.Lines().Len() {
				code = append(code, n.Lines().At(i))
			}
		case *ast.Paragraph, *ast.TextBlock, *ast.Heading:
			code = append(code, spans(n, source)...)
			return ast.WalkSkipChildren, nil
		}
		return ast.WalkContinue, nil // the function returns no error
	})
	return code, gone
}

// spans returns where a block is code for every reading of it.
func spans(block ast.Node, source string) (out []text.Segment) {
	lines, end := block.Lines(), len(source)
	table, tag := false, false
	for i := range lines.Len() {
		line := strings.TrimSpace(source[lines.At(i).Start:lines.At(i).Stop])
		table, tag = table || delimiterRow.MatchString(line), tag || strings.HasPrefix(line, "<")
	}
	if table && tag {
		return nil // HTML may end a table
	}
	if lines.Len() > 0 {
		end = unsure(source, lines.At(0).Start, lines.At(lines.Len()-1).Stop)
	}
	for n := block.FirstChild(); n != nil; n = n.NextSibling() {
		span, ok := n.(*ast.CodeSpan)
		if !ok {
			continue
		}
		var parts []text.Segment
		for c := span.FirstChild(); c != nil; c = c.NextSibling() {
			if part, ok := c.(*ast.Text); ok {
				parts = append(parts, part.Segment)
			}
		}
		if len(parts) == 0 || parts[0].Start >= end || table && (len(parts) > 1 || !alone(source, parts[0])) {
			continue
		}
		out = append(out, parts...)
	}
	return out
}

// unsure returns from where on backticks of a block may belong to the address or title of a link, and so
// what is code between them is not known.
func unsure(source string, start, stop int) int {
	for _, m := range link.FindAllStringIndex(source[start:stop], -1) {
		if !plainLink.MatchString(source[start+m[0] : stop]) {
			return start + m[0]
		}
	}
	return stop
}

// alone reports whether a span on one line is the only code of a cell of a table, which ends at a bar, also
// in code.
func alone(source string, span text.Segment) bool {
	start, stop := span.Start, span.Stop
	for i := start; i < stop; i++ {
		if source[i] == '|' && source[i-1] != '\\' {
			return false
		}
	}
	for start > 0 && source[start-1] == ' ' {
		start--
	}
	for start > 0 && source[start-1] == '`' {
		start--
	}
	for ; start > 0 && source[start-1] != '\n' && source[start-1] != '|'; start-- {
		if source[start-1] == '`' {
			return false
		}
	}
	rest := strings.TrimLeft(strings.TrimLeft(source[stop:], " "), "`")
	at := strings.IndexAny(rest, "`|\n")
	return at < 0 || rest[at] != '`'
}
