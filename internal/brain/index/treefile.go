package index

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
)

// A tree file has the documents of a snapshot and what they import, so that a process that opens the
// index does not need to find it out again.

const treeMagic = "RGPTTREE1"

// writeTree stores a snapshot. all are the tree's files, including those that are not indexed.
func writeTree(path string, s *Snapshot, all []File) error {
	w := writer{b: make([]byte, 0, len(all)*40)}
	w.b = append(w.b, treeMagic...)
	w.text(s.Tree)
	w.uint(len(all))
	before := ""
	for _, f := range all {
		w.after(before, f.Path)
		w.b = append(w.b, f.Key[:]...)
		before = f.Path
	}
	w.uint(len(s.paths))
	for doc := range s.paths {
		list := s.imports.of(uint32(doc))
		w.uint(len(list))
		last := uint32(0)
		for _, to := range list {
			w.uint(int(to - last))
			last = to
		}
	}
	w.fixed32(crc32.Checksum(w.b, castagnoli))
	return replaceFile(path, w.b)
}

// readTree returns the files of a stored tree and what its documents import.
func readTree(path string) (tree string, files []File, imports edges, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", nil, edges{}, fmt.Errorf("read a tree of the index: %w", err)
	}
	name := filepath.Base(path)
	if len(b) < len(treeMagic)+4 || string(b[:len(treeMagic)]) != treeMagic ||
		crc32.Checksum(b[:len(b)-4], castagnoli) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return "", nil, edges{}, corrupt(name)
	}
	r := reader{b: b[len(treeMagic) : len(b)-4]}
	tree = r.text()
	files = make([]File, r.count())
	var p []byte
	for i := range files {
		p = r.after(p)
		files[i].Path = string(p)
		copy(files[i].Key[:], r.bytes(len(files[i].Key)))
	}
	docs := r.count()
	imports.starts = make([]uint32, 1, docs+1)
	for range docs {
		last := 0
		for range r.count() {
			last += r.uint()
			if last >= docs {
				r.bad = true
				break
			}
			imports.to = append(imports.to, uint32(last))
		}
		imports.starts = append(imports.starts, uint32(len(imports.to)))
	}
	if r.bad || len(r.b) > 0 {
		return "", nil, edges{}, corrupt(name)
	}
	return tree, files, imports, nil
}

// replaceFile writes a file atomically, so that after a crash either the old or the new one is there.
func replaceFile(path string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("write to the index: %w", err)
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("write to the index: %w", err)
	}
	return nil
}
