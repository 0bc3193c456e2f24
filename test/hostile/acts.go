package hostile

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"golang.org/x/net/html"

	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// The syntax of GitHub, GitLab and Gitea: what one of them acts on counts.
var (
	mentions = regexp.MustCompile(`(?:^|\W)(@\w[\w./-]*)`)
	closings = regexp.MustCompile(`(?i)\b(?:clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?|reopen(?:s|ed|ing)?)(?:[:,]\s*|\s+)[(\["'*_]*` +
		`(?:(?:issues?\s+|merge requests?\s+)?[\w./-]*[#!]\d+|gh-\d+|https?://\S+)`)
	keys     = regexp.MustCompile(`\b(?i:clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?)\b:? +[A-Z][A-Z0-9_]+-\d+`)
	skips    = regexp.MustCompile(`(?i)\[(?:skip|no)[ -][^\]]*\]|\[(?:ci|actions)[ -]skip\]|\*\*\*no_ci\*\*\*|(?m:^skip-checks:)`)
	trailers = regexp.MustCompile(`(?im)^(?:co-authored-by|signed-off-by|reviewed-by|approved-by|acked-by|tested-by|on-behalf-of|rgpt-[a-z]+) *:`)
	slashes  = regexp.MustCompile(`(?m)^(?:[ \t]|\xc2\xa0)*/[a-z]`)
)

// InPlain returns what forges act on in a text without markup: in the messages of commits, and in titles.
func InPlain(s string) (acts []string) {
	for what, re := range map[string]*regexp.Regexp{"mention": mentions, "closing": closings, "closing by key": keys, "skip": skips, "trailer": trailers} {
		for _, m := range re.FindAllStringSubmatch(s, -1) {
			acts = append(acts, what+" "+strings.TrimSpace(m[len(m)-1]))
		}
	}
	slices.Sort(acts)
	return append(acts, InTerminal(s)...)
}

// InTerminal returns the characters of a text that a terminal acts on, or that readers do not see.
func InTerminal(s string) (acts []string) {
	for _, r := range s {
		if r != '\n' && r != '\t' && unicode.IsControl(r) || r != '\u200d' && unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			acts = append(acts, fmt.Sprintf("character %U", r))
		}
	}
	return slices.Compact(acts)
}

// InMarkdown returns what forges act on in the Markdown of a comment or the body of a pull request. Links
// to the allowed prefixes of addresses do not count, and neither do the marks of runs.
func InMarkdown(markdown string, allowed ...string) []string {
	w := &walker{source: []byte(markdown), allowed: allowed}
	md := goldmark.New(goldmark.WithExtensions(extension.GFM))
	doc := md.Parser().Parse(text.NewReader(w.source))
	_ = ast.Walk(doc, w.visit)
	w.flush()
	for _, m := range slashes.FindAllString(withoutCode(markdown), -1) {
		w.add("command %s", m)
	}
	return append(w.acts, InTerminal(markdown)...)
}

// walker collects what a document does.
type walker struct {
	source  []byte
	allowed []string
	acts    []string
	words   strings.Builder // of the block, outside of code
}

func (w *walker) add(format string, args ...any) {
	w.acts = append(w.acts, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (w *walker) flush() {
	shown := w.words.String()
	w.words.Reset()
	for what, re := range map[string]*regexp.Regexp{"mention": mentions, "closing": closings, "closing by key": keys} {
		for _, m := range re.FindAllStringSubmatch(shown, -1) {
			w.add("%s %s", what, m[len(m)-1])
		}
	}
}

func (w *walker) visit(n ast.Node, entering bool) (ast.WalkStatus, error) {
	if n.Type() == ast.TypeBlock {
		w.flush()
	}
	if !entering {
		return ast.WalkContinue, nil
	}
	switch n := n.(type) {
	case *ast.CodeSpan:
		w.words.WriteString("\ufffc") // code stands between words, as something else
		return ast.WalkSkipChildren, nil
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		return ast.WalkSkipChildren, nil
	case *ast.Image:
		w.add("image %s", n.Destination)
	case *ast.Link:
		w.link(string(n.Destination))
	case *ast.AutoLink:
		w.link(string(n.URL(w.source)))
	case *ast.RawHTML:
		w.html(segments(n.Segments, w.source))
	case *ast.HTMLBlock:
		all := segments(n.Lines(), w.source)
		if n.HasClosure() {
			all += string(n.ClosureLine.Value(w.source))
		}
		w.html(all)
	case *ast.Text:
		w.words.WriteString(shown(n.Segment.Value(w.source)))
		if n.SoftLineBreak() || n.HardLineBreak() {
			w.words.WriteByte('\n')
		}
	case *ast.String:
		w.words.WriteString(shown(n.Value))
	}
	return ast.WalkContinue, nil
}

// shown resolves escapes and entities.
func shown(raw []byte) string {
	return string(util.UnescapePunctuations(util.ResolveEntityNames(util.ResolveNumericReferences(raw))))
}

func segments(s *text.Segments, source []byte) string {
	var b strings.Builder
	for i := range s.Len() {
		part := s.At(i)
		b.Write(part.Value(source))
	}
	return b.String()
}

func (w *walker) link(to string) {
	for _, prefix := range w.allowed {
		if strings.HasPrefix(to, prefix) {
			return
		}
	}
	w.add("link %s", to)
}

// own matches the invisible marks of runs.
var own = regexp.MustCompile(`^<!-- rgpt:[a-z-]+(?: [a-z]+=[\w./-]*)* -->$`)

func (w *walker) html(raw string) {
	for line := range strings.Lines(raw) {
		if line = strings.TrimSpace(line); line != "" && !own.MatchString(line) {
			w.add("html %s", line)
		}
	}
}

// withoutCode blanks blocks of code.
func withoutCode(markdown string) string {
	fence, inside := "", false
	var b strings.Builder
	for line := range strings.Lines(markdown) {
		trimmed := strings.TrimSpace(line)
		switch {
		case !inside && strings.HasPrefix(trimmed, "```"):
			fence, inside = trimmed[:len(trimmed)-len(strings.TrimLeft(trimmed, "`"))], true
		case inside && trimmed == fence:
			inside = false
		case !inside:
			b.WriteString(line)
		}
	}
	return b.String()
}

// fences matches what is data in a prompt.
var fences = regexp.MustCompile(`(?s)<untrusted name="[^"\n<>]*">\n.*?\n</untrusted>`)

// fenceLike matches what looks like the beginning or end of a fence.
var fenceLike = regexp.MustCompile(`(?i)<\s*/?\s*untrusted`)

// OutsideFences returns what stands outside of the data of a prompt, and reports whether every fence is
// whole, and nothing else looks like one.
func OutsideFences(prompt string) (rest string, whole bool) {
	rest = fences.ReplaceAllString(prompt, "")
	return rest, !fenceLike.MatchString(rest)
}

// InMail returns what programs turn into links in a mail of plain text.
func InMail(body string) (acts []string) {
	for _, m := range regexp.MustCompile(`(?i)\b(?:[a-z]+://|www\.|mailto:)\S*`).FindAllString(body, -1) {
		if u, err := url.Parse(m); err != nil || !strings.HasSuffix(u.Hostname(), "example.com") {
			acts = append(acts, "link "+m)
		}
	}
	return append(acts, InTerminal(strings.ReplaceAll(body, "\r\n", "\n"))...)
}

// addressed are the attributes that a browser fetches or follows.
var addressed = []string{"href", "src", "action", "formaction", "srcset", "poster", "data", "content", "xlink:href"}

// InHTML returns what a browser would do with a page, of what the texts try: run a script, or ask another
// host.
func InHTML(page string) (acts []string) {
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return []string{err.Error()}
	}
	for n := range doc.Descendants() {
		switch {
		case n.Type == html.TextNode && n.Parent != nil && (n.Parent.Data == "script" || n.Parent.Data == "style") && strings.Contains(n.Data, Marker):
			acts = append(acts, n.Parent.Data+" "+n.Data)
		case n.Type == html.ElementNode:
			for _, a := range n.Attr {
				if acting(a) {
					acts = append(acts, fmt.Sprintf("%s %s=%s", n.Data, a.Key, a.Val))
				}
			}
		}
	}
	return acts
}

// acting reports whether an attribute runs a script or leads to the host of the texts.
func acting(a html.Attribute) bool {
	if strings.HasPrefix(a.Key, "on") {
		return true
	}
	if !slices.Contains(addressed, a.Key) {
		return false
	}
	u, err := url.Parse(strings.TrimSpace(a.Val))
	return err == nil && (strings.HasSuffix(u.Hostname(), Host) || slices.Contains([]string{"javascript", "vbscript", "data"}, u.Scheme) && strings.Contains(a.Val, Marker))
}

// Visible returns the text as readers see it.
func Visible(s string) string { return telemetry.Visible(strings.ToValidUTF8(s, "\ufffd")) }
