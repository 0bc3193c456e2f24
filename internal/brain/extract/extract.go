// Package extract finds in a file what a search in a repository needs: the definitions with their
// signatures, the parts into which the file can be cut, its imports, the identifiers that it uses,
// and which of its bytes are prose.
//
// All files are hostile input. Each processor reads a file once, from the front to the back, in time
// linear in the file's size, with bounded depth and bounded results, and never fails: a file that it
// does not understand yields less.
package extract

// Extract is what a processor found in one file.
type Extract struct {
	// Lang is the name of the language or format in lower case, such as "go", "typescript" or "text".
	Lang string
	// Package is the package, module or namespace that the file says it belongs to, or "".
	Package string
	// Lines is the number of lines.
	Lines int
	// Symbols are the definitions, by ascending line.
	Symbols []Symbol
	// Chunks cover all lines of the file in order, without overlaps.
	Chunks []Chunk
	// Imports are the imported names or paths, as written, without quotes and without duplicates.
	Imports []string
	// Refs are the identifiers that the code uses, keywords excepted, by ascending name.
	Refs []Ref
	// Prose are the byte ranges of comments, texts in quotes and documentation, ascending and without
	// overlaps. All other bytes are code. They refer to the content and are not stored.
	Prose []Span
}

// Symbol is one definition.
type Symbol struct {
	Name string
	Kind Kind
	// Signature is the definition's first lines as one line of at most MaxSignature bytes.
	Signature string
	// Line and EndLine are its first and last line, counted from 1.
	Line, EndLine int
	// Parent is the name of the enclosing definition or of a method's receiver, or "".
	Parent string
	// Exported says that code in other files can use it, as far as the language's syntax tells.
	Exported bool
}

// Chunk is a part of a file that is worth reading on its own.
type Chunk struct {
	// Line and EndLine are its first and last line, counted from 1.
	Line, EndLine int
	// Symbol is the name of the definition that it belongs to, qualified by its parent, or "".
	Symbol string
}

// Ref is an identifier and the number of its uses in a file.
type Ref struct {
	Name  string
	Count int
}

// Span is a range of bytes: from Start up to and without End.
type Span struct{ Start, End int }

// Kind says what a symbol is.
type Kind uint8

// The kinds of symbols.
const (
	KindOther Kind = iota
	KindFunction
	KindMethod
	KindClass
	KindStruct
	KindInterface
	KindEnum
	KindType
	KindConstant
	KindVariable
	KindField
	KindModule
	KindMacro
	KindHeading
	KindKey
	kinds
)

var kindNames = [kinds]string{
	"other", "function", "method", "class", "struct", "interface", "enum", "type", "constant",
	"variable", "field", "module", "macro", "heading", "key",
}

// String returns the kind's name in lower case.
func (k Kind) String() string {
	if k >= kinds {
		k = KindOther
	}
	return kindNames[k]
}

// Limits of one file's extract. What exceeds them is left out.
const (
	// MaxSignature is the number of bytes of a signature.
	MaxSignature = 200
	// MaxName is the number of bytes of a name; longer ones are left out.
	MaxName = 200
	// MaxSymbols is the number of symbols of a file.
	MaxSymbols = 5000
	// MaxImports is the number of imports of a file.
	MaxImports = 1000
	// MaxRefs is the number of different identifiers of a file.
	MaxRefs = 2000
	// MaxDepth is the depth of nested definitions.
	MaxDepth = 64
	// MaxChunkLines is the number of lines of a chunk.
	MaxChunkLines = 80
)

// Processor extracts one family of file types.
type Processor interface {
	// Matches says whether the processor is responsible for a file, given its path with slashes and
	// the first bytes of its content.
	Matches(path string, head []byte) bool
	// Extract returns what it found.
	Extract(path string, content []byte) Extract
}
