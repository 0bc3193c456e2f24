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

func TestABlobThatIsStoredAgainWhileItIsRemovedStays(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(d *directory, key string){
		"before it is moved away": nil,
		"after it is moved away": func(d *directory, key string) {
			young, err := d.refresh(t.Context(), key)
			require.NoError(t, err)
			require.False(t, young, "it is gone, so it has to be written")
			require.NoError(t, d.put(t.Context(), key, []byte("hello")))
		},
		"in between": func(d *directory, key string) { // the refresh had found it before
			now := time.Now()
			require.NoError(t, os.Chtimes(d.trash(key), now, now))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := openDirectory(t.TempDir(), false)
			require.NoError(t, err)
			key := keyOf(Digest([]byte("hello")))
			require.NoError(t, d.put(t.Context(), key, []byte("hello")))
			old := time.Now().Add(-48 * time.Hour)
			require.NoError(t, os.Chtimes(d.path(key), old, old))
			cutoff := time.Now().Add(-time.Hour)
			if again == nil {
				young, err := d.refresh(t.Context(), key)
				require.NoError(t, err)
				require.True(t, young)
			} else {
				d.moved = func() { again(d, key) }
			}
			_, err = d.removeOlder(t.Context(), key, cutoff)
			require.NoError(t, err)
			require.FileExists(t, d.path(key))
			require.NoFileExists(t, d.trash(key))
		})
	}
}

func TestAnInterruptedRemovalIsUndone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := openDirectory(dir, false)
	require.NoError(t, err)
	one, two := keyOf(Digest([]byte("one"))), keyOf(Digest([]byte("two")))
	for key, text := range map[string]string{one: "one", two: "two"} {
		require.NoError(t, d.put(t.Context(), key, []byte(text)))
		require.NoError(t, os.MkdirAll(filepath.Dir(d.trash(key)), 0o700))
		require.NoError(t, os.Rename(d.path(key), d.trash(key)))
	}
	require.NoError(t, d.put(t.Context(), two, []byte("two"))) // stored again since
	_, err = openDirectory(dir, false)
	require.NoError(t, err)
	for _, key := range []string{one, two} {
		require.FileExists(t, d.path(key))
		require.NoFileExists(t, d.trash(key))
	}
}
