// Package mutate introduces small bugs into Go code, as mutation testing does. Tests of healing use
// them, so the bugs are not chosen by hand.
package mutate

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Operator is a kind of mutation.
type Operator string

// The operators.
const (
	FlipComparison  Operator = "flip-comparison"  // < becomes >=, == becomes !=
	OffByOne        Operator = "off-by-one"       // 3 becomes 4, < becomes <=
	NegateCondition Operator = "negate-condition" // if c becomes if !(c)
	SwapLogic       Operator = "swap-logic"       // && becomes ||
	DropStatement   Operator = "drop-statement"   // an assignment or call is removed
	SwapArithmetic  Operator = "swap-arithmetic"  // + becomes -
)

// Mutant is a file with one mutation.
type Mutant struct {
	File     string // relative to the module, with slashes
	Line     int
	Operator Operator
	Old, New string // Old was replaced with New
	True     []byte // the whole original file
	Text     []byte // the whole mutated file
	start    int    // where Old begins in True
}

// String returns the location of the mutation and a description.
func (m Mutant) String() string {
	return fmt.Sprintf("%s:%d %s: %q became %q", m.File, m.Line, m.Operator, m.Old, m.New)
}

// Inverse returns the edit that undoes the mutation: whole lines that occur once in the mutated
// file, and the corresponding lines of the original.
func (m Mutant) Inverse() (from, to string) {
	first := bytes.LastIndexByte(m.True[:m.start], '\n') + 1
	wrongEnd, rightEnd := lineEnd(m.Text, m.start+len(m.New)), lineEnd(m.True, m.start+len(m.Old))
	for {
		from, to = string(m.Text[first:wrongEnd]), string(m.True[first:rightEnd])
		if strings.Count(string(m.Text), from) == 1 {
			return from, to
		}
		// The text is not unique: add a line before and a line after.
		if first > 0 {
			first = bytes.LastIndexByte(m.True[:first-1], '\n') + 1
		}
		wrongEnd, rightEnd = lineEnd(m.Text, wrongEnd), lineEnd(m.True, rightEnd)
	}
}

// lineEnd returns the offset after the first line break at or after the given offset.
func lineEnd(text []byte, at int) int {
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

// Module returns all mutants of a module's own code, except for tests, generated files, and files
// that are not built on this system. Their order depends only on the seed.
func Module(dir string, seed uint64) ([]Mutant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	var all []Mutant
	for _, path := range files {
		name := filepath.Base(path)
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if built, err := build.Default.MatchFile(dir, name); err != nil || !built {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		mutants, err := File(name, text)
		if err != nil {
			return nil, err
		}
		all = append(all, mutants...)
	}
	random := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // must be reproducible for a seed
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all, nil
}

// File returns all mutants of one file, in source order.
func File(name string, text []byte) ([]Mutant, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	if ast.IsGenerated(parsed) {
		return nil, nil
	}
	f := &file{name: name, text: text, set: set}
	ast.Inspect(parsed, f.visit)
	return f.mutants, nil
}

type file struct {
	name    string
	text    []byte
	set     *token.FileSet
	mutants []Mutant
}

// visit adds the mutants of a node.
func (f *file) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok != token.IMPORT
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.BasicLit:
		if i, err := strconv.ParseInt(n.Value, 0, 32); n.Kind == token.INT && err == nil {
			f.replace(OffByOne, n.Pos(), n.End(), strconv.FormatInt(i+1, 10))
		}
	case *ast.IfStmt:
		f.replace(NegateCondition, n.Cond.Pos(), n.Cond.End(), "!("+f.source(n.Cond)+")")
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
	}
	return true
}

var (
	flipped = map[token.Token]token.Token{
		token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ, token.LEQ: token.GTR, token.EQL: token.NEQ, token.NEQ: token.EQL,
	}
	byOne = map[token.Token]token.Token{token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR}
	logic = map[token.Token]token.Token{token.LAND: token.LOR, token.LOR: token.LAND}
	sums  = map[token.Token]token.Token{token.ADD: token.SUB, token.SUB: token.ADD}
)

// binary adds the mutants of an operator between two values.
func (f *file) binary(n *ast.BinaryExpr) {
	for _, o := range []struct {
		Operator
		to map[token.Token]token.Token
	}{{FlipComparison, flipped}, {OffByOne, byOne}, {SwapLogic, logic}, {SwapArithmetic, sums}} {
		if to, ok := o.to[n.Op]; ok {
			f.replace(o.Operator, n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), to.String())
		}
	}
}

// statements adds the mutants that lack one statement of a list. Declarations are kept, because the
// code would not compile without them.
func (f *file) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				f.replace(DropStatement, s.Pos(), s.End(), "")
			}
		case *ast.ExprStmt, *ast.IncDecStmt:
			f.replace(DropStatement, s.Pos(), s.End(), "")
		}
	}
}

func (f *file) source(n ast.Node) string { return string(f.text[f.at(n.Pos()):f.at(n.End())]) }

func (f *file) at(p token.Pos) int { return f.set.Position(p).Offset }

// replace adds a mutant.
func (f *file) replace(o Operator, from, to token.Pos, with string) {
	start, end := f.at(from), f.at(to)
	f.mutants = append(f.mutants, Mutant{
		File: f.name, Line: f.set.Position(from).Line, Operator: o, Old: string(f.text[start:end]), New: with, start: start,
		True: f.text, Text: slices.Concat(f.text[:start], []byte(with), f.text[end:]),
	})
}
