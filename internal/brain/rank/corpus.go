// Package rank finds the files of a repository that matter for a question, and explains why. It reads
// an index through the interface Corpus and does no input or output of its own: the same corpus and
// the same question always give the same result.
package rank

import "github.com/rocketgpt/orchestrator/internal/brain/extract"

// Field is a part of a file in which a term occurs.
type Field uint8

// The fields of a file.
const (
	FieldPath   Field = iota // path and file name
	FieldSymbol              // names of definitions
	FieldBody                // identifiers and words in code
	FieldProse               // comments, strings, headings, documentation
	Fields                   // number of fields
)

// Posting says how often a term occurs in a file, per field; at most 255 times.
type Posting struct {
	Doc   uint32
	Count [Fields]uint8
}

// Corpus is the index of one snapshot of a repository. Documents are files, numbered from 0 in the
// order of their paths. A Corpus is safe for concurrent use, and nobody changes what it returns.
type Corpus interface {
	// Docs returns the number of documents.
	Docs() int
	// Path returns a document's path, with slashes.
	Path(doc uint32) string
	// Lang returns a document's language, as extract.Extract has it.
	Lang(doc uint32) string
	// Length returns the number of terms of each field.
	Length(doc uint32) [Fields]uint32
	// Postings returns where a term occurs, by ascending document, and nothing for an unknown term.
	Postings(term string) ([]Posting, error)
	// Extract returns what was extracted from a document. It may be slow: call it for few documents.
	Extract(doc uint32) (extract.Extract, error)
	// Imports returns the documents that a document imports, ascending.
	Imports(doc uint32) []uint32
	// ImportedBy returns the documents that import a document, ascending.
	ImportedBy(doc uint32) []uint32
}
