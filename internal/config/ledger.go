package config

import "time"

// Ledger configures the audit ledger.
type Ledger struct {
	KeyFile         string        `yaml:"key_file" doc:"File with the Ed25519 private key (PEM, PKCS #8) that signs checkpoints of the audit ledger. Empty: ledger-key.pem in the data directory. A key is made if the file does not exist. Keep a copy of the public key elsewhere: rgpt ledger checkpoint prints it."`
	CheckpointEvery time.Duration `yaml:"checkpoint_every" validate:"min=0,max=8760h" doc:"How often the server signs a checkpoint of the audit ledger and stores it with the artifacts, if something was added since. 0: only rgpt ledger checkpoint does."`
	DetailsAge      time.Duration `yaml:"details_age" validate:"min=0,max=876000h" doc:"Age at which the server removes the details of entries of the audit ledger. Their digests, and all other fields, remain, so that the ledger can still be verified. 0: they are kept."`
}
