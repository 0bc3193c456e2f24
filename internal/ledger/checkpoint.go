package ledger

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Checkpoint states that a ledger ended with an entry at some time, signed with Ed25519.
type Checkpoint struct {
	Seq       int64     `json:"seq"`
	Hash      string    `json:"hash"`
	At        time.Time `json:"at"`
	Key       string    `json:"key"`       // public key, base64
	Signature string    `json:"signature"` // base64
}

// statement is what is signed.
func (c Checkpoint) statement() []byte {
	return fmt.Appendf(nil, "rgpt ledger checkpoint 1\n%d\n%s\n%d\n", c.Seq, c.Hash, c.At.UnixMicro())
}

// Sign returns a signed checkpoint.
func Sign(key ed25519.PrivateKey, seq int64, hash string, at time.Time) Checkpoint {
	public, _ := key.Public().(ed25519.PublicKey)
	c := Checkpoint{Seq: seq, Hash: hash, At: at.UTC().Truncate(time.Microsecond), Key: base64.StdEncoding.EncodeToString(public)}
	c.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(key, c.statement()))
	return c
}

// Check returns an error unless the checkpoint was signed with the private key of a public one.
func (c Checkpoint) Check(public ed25519.PublicKey) error {
	signature, err := base64.StdEncoding.DecodeString(c.Signature)
	if err != nil || !ed25519.Verify(public, c.statement(), signature) {
		return fmt.Errorf("the checkpoint of entry %d (%s) was not signed with the key %s", c.Seq, c.At.UTC().Format(time.RFC3339),
			base64.StdEncoding.EncodeToString(public))
	}
	return nil
}

// ReadCheckpoint reads a checkpoint from a file, as rgpt ledger checkpoint writes it.
func ReadCheckpoint(file string) (Checkpoint, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("read a checkpoint: %w", err)
	}
	var c Checkpoint
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, fmt.Errorf("read the checkpoint %s: %w", file, err)
	}
	return c, nil
}

// keyType is the type of the PEM block of a key file.
const keyType = "PRIVATE KEY"

// Key reads the private key for checkpoints from a file. If the file does not exist, it makes a key and
// writes it, readable by its owner only.
func Key(file string) (ed25519.PrivateKey, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return newKey(file)
	}
	if err != nil {
		return nil, fmt.Errorf("read the key for checkpoints of the ledger: %w", err)
	}
	return parseKey(file, raw)
}

func parseKey(file string, raw []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(raw)
	if block == nil || block.Type != keyType {
		return nil, fmt.Errorf("%s contains no private key in PEM form; expected an Ed25519 key in PKCS #8, as openssl genpkey -algorithm ed25519 writes it", file)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the private key in %s: %w", file, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the private key in %s is not an Ed25519 key", file)
	}
	return key, nil
}

// newKey makes a key. Two processes that start at the same time agree on one.
func newKey(file string) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key for checkpoints of the ledger: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode the key for checkpoints of the ledger: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, fmt.Errorf("make a directory for the key of the ledger: %w", err)
	}
	temporary, err := os.CreateTemp(filepath.Dir(file), ".ledger-key-*")
	if err != nil {
		return nil, fmt.Errorf("write the key for checkpoints of the ledger: %w", err)
	}
	defer os.Remove(temporary.Name())
	if err := errors.Join(pem.Encode(temporary, &pem.Block{Type: keyType, Bytes: der}), temporary.Sync(), temporary.Close()); err != nil {
		return nil, fmt.Errorf("write the key for checkpoints of the ledger: %w", err)
	}
	if err := os.Link(temporary.Name(), file); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("write the key for checkpoints of the ledger: %w", err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the key for checkpoints of the ledger: %w", err)
	}
	return parseKey(file, raw)
}
