package artifact

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOpenRemovesOnlyOldPartialFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := openDirectory(dir, false)
	require.NoError(t, err)
	old, err := d.newFile()
	require.NoError(t, err)
	young, err := d.newFile()
	require.NoError(t, err)
	yesterday := time.Now().Add(-25 * time.Hour)
	require.NoError(t, os.Chtimes(old.Name(), yesterday, yesterday))

	_, err = openDirectory(dir, false)
	require.NoError(t, err)
	require.NoFileExists(t, old.Name())
	require.FileExists(t, young.Name())
}

func TestAFolderInABlobsPlaceIsAnError(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), "", t.TempDir())
	require.NoError(t, err)
	key := keyOf(Digest([]byte("hello")))
	require.NoError(t, os.MkdirAll(filepath.Join(s.backend.where(), key), 0o700))
	_, err = s.Put(t.Context(), []byte("hello"))
	require.ErrorContains(t, err, "not a regular file")
}
