package workflow

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The limits of a workflow's YAML. Aliases count with all that they stand for, because they can make a
// small file huge.
const (
	maxNodes = 50_000
	maxDepth = 100
	// maxOperators is the number of characters in texts with expressions that can nest them. The parser
	// of expressions is recursive.
	maxOperators = 5000
)

// errComplex is the error of YAML that exceeds a limit.
var errComplex = errors.New("it is too complex to be examined")

// parse returns the root of a YAML document, or nil if it is empty.
func parse(content []byte) (*yaml.Node, error) {
	if tooDeep(content) {
		return nil, errComplex
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(content, &doc); err != nil {
		return nil, fmt.Errorf("it is not valid YAML: %w", err)
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	m := measure{sizes: map[*yaml.Node]int{}}
	if m.size(doc.Content[0], 0) > maxNodes || m.operators > maxOperators {
		return nil, errComplex
	}
	return doc.Content[0], nil
}

// tooDeep reports whether a text has more brackets open at once, or a deeper indent, than a workflow
// can need. It is only an estimate that saves the parser from the worst.
func tooDeep(content []byte) bool {
	open, most := 0, 0
	for _, b := range content {
		switch b {
		case '[', '{':
			open++
			most = max(most, open)
		case ']', '}':
			open = max(0, open-1)
		case '\n':
			// A bracket within a text does not stay open for long.
			if open > 0 && most < maxDepth {
				open = 0
			}
		}
	}
	if most > 10*maxDepth {
		return true
	}
	for line := range bytes.Lines(content) {
		if n := len(line) - len(bytes.TrimLeft(line, " -?")); n > 10*maxDepth {
			return true
		}
	}
	return false
}

// measure is the size of a document.
type measure struct {
	sizes     map[*yaml.Node]int // -1 while it is being measured
	operators int
}

// size is the number of nodes with all aliases resolved, up to a little more than maxNodes.
func (m *measure) size(n *yaml.Node, depth int) int {
	if n == nil {
		return 0
	}
	if known, ok := m.sizes[n]; ok {
		if known < 0 {
			return maxNodes + 1 // it contains itself
		}
		return known
	}
	if depth > maxDepth {
		return maxNodes + 1
	}
	m.sizes[n] = -1
	total := 1 + m.size(n.Alias, depth+1)
	if n.Kind == yaml.ScalarNode {
		m.operators += operators(n.Value)
	}
	for _, c := range n.Content {
		if total > maxNodes {
			break
		}
		total += m.size(c, depth+1)
	}
	m.sizes[n] = total
	return total
}

// operators counts what can nest an expression. A text without ${{ can still be the condition of an
// if; those are short.
func operators(text string) int {
	if len(text) > 1000 && !strings.Contains(text, "${{") && strings.Contains(text, "\n") {
		return 0
	}
	n := 0
	for _, b := range []byte(text) {
		switch b {
		case '(', '[', '!', '&', '|':
			n++
		}
	}
	return n
}

// field returns the value of a key in a mapping, or nil.
func field(n *yaml.Node, key string) *yaml.Node {
	var found *yaml.Node
	each(n, func(k, v *yaml.Node) {
		if k.Value == key {
			found = v
		}
	})
	return found
}

// each calls do for the keys and values of a mapping.
func each(n *yaml.Node, do func(key, value *yaml.Node)) {
	n = follow(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		do(follow(n.Content[i]), follow(n.Content[i+1]))
	}
}

// follow returns what an alias stands for.
func follow(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// scalar is the text of a scalar, or "".
func scalar(n *yaml.Node) string {
	if n = follow(n); n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

// scalars calls do for each scalar below a node. parse has limited their number.
func scalars(n *yaml.Node, do func(*yaml.Node)) {
	n = follow(n)
	if n == nil {
		return
	}
	if n.Kind == yaml.ScalarNode {
		do(n)
	}
	for _, c := range n.Content {
		scalars(c, do)
	}
}

var expression = regexp.MustCompile(`(?s)\$\{\{(.*?)\}\}`)

// expressions calls do for each ${{ expression }} of a text with its line.
func expressions(n *yaml.Node, do func(text string, line int)) {
	for _, m := range expression.FindAllStringSubmatchIndex(n.Value, -1) {
		do(n.Value[m[2]:m[3]], n.Line+textLine(n, m[0]))
	}
}

// textLine is the line of a place in a text, counted from the line of its node.
func textLine(n *yaml.Node, at int) int {
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		return 0
	}
	return 1 + strings.Count(n.Value[:at], "\n")
}
