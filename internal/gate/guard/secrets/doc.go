// Package secrets is the guard that looks for secrets in a change: in the lines that it adds, in the
// paths of its files, in the targets of its links and in the texts that are published with it.
//
// The rules, with the severity that a finding has outside of tests, examples and documents:
//
//	secrets/token        major   a token in the format of one issuer: remove it and revoke it
//	secrets/private-key  major   a private key, also an encrypted one: remove it and replace it
//	secrets/credential   medium  a value that the text around it makes a secret of a known service
//	secrets/jwt          medium  a signed JSON Web Token: remove it and revoke it
//	secrets/url          medium  a password in a URL: load it from the environment
//	secrets/assignment   medium  a value assigned to the name of a secret: load it from the environment
//	secrets/keystore     medium  a file that is a store of keys by its name: remove it
//	secrets/unexamined   medium  a part of the change that was not examined: review it
//
// In tests, examples and documents, a private key is medium and what depends on context is minor. A
// secret that a changed file has before the change is minor, because the change does not disclose it.
//
// The forms are those of gitleaks (its default configuration, without its catch-all rule), those that
// package telemetry redacts in logs, and those in forms.go. Only the configuration of gitleaks is used, not
// its detector: the detector accepts comments and file names that switch it off, which the author of a
// hostile change would use, and it needs libraries for archives, which nothing here reads.
//
// A text is also examined without invisible characters, with adjacent string literals joined, and with
// base64, hexadecimal and escaped text decoded. Not found are: secrets that a program puts together from
// variables, that are encrypted, reversed or compressed; passwords that consist of one kind of
// characters; values without a known form under a name that says nothing.
//
// Known example values, placeholders, hashes, UUIDs, public keys and certificates are not secrets.
package secrets
