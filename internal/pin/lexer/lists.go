package lexer

import "sort"

// Lists are the lists of a file that have names. Several may have the same name in different blocks.
type Lists struct {
	byName map[string][]list
	end    int // of the file
}

// list is the bracket of a list, and the end of the block in which it has its name.
type list struct{ open, end int }

// maxHomonyms is the maximum number of lists with the same name that are searched.
const maxHomonyms = 16

// NewLists returns no lists, for a source with this number of tokens.
func NewLists(tokens int) Lists { return Lists{byName: map[string][]list{}, end: tokens} }

// Add adds a list by its bracket, in the order of the file. It has its name until the end of a block.
func (l Lists) Add(name string, open, end int) {
	l.byName[name] = append(l.byName[name], list{open, end})
}

// Find returns the bracket of the list that a name stands for at a token: the last one before it
// whose block has not ended, else the last one of the file that is in no block, else -1.
func (l Lists) Find(name string, at int) int {
	lists := l.byName[name]
	before := sort.Search(len(lists), func(i int) bool { return lists[i].open > at })
	for i := before - 1; i >= max(0, before-maxHomonyms); i-- {
		if at < lists[i].end {
			return lists[i].open
		}
	}
	for i := len(lists) - 1; i >= max(0, len(lists)-maxHomonyms); i-- {
		if lists[i].end == l.end {
			return lists[i].open
		}
	}
	return -1
}
