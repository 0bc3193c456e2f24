package output

import (
	"errors"
	"io"
	"os"
)

// Reasons why a file is not read, or not completely.
var (
	ErrTooLarge   = errors.New("file is too large")
	ErrNotRegular = errors.New("not a regular file")
)

// ReadRegular reads a regular file and does not follow a symbolic link in the last path element.
// For a larger file, it returns the first limit bytes and ErrTooLarge.
func ReadRegular(root *os.Root, p string, limit int64) ([]byte, error) {
	info, err := root.Lstat(p)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, ErrNotRegular // a pipe would block, a device might be endless
	}
	f, err := root.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		return data[:limit], ErrTooLarge
	}
	return data, err
}
