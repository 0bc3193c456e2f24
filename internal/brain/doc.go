// Package brain knows the code of repositories: it finds the files that matter for a question, and
// describes a repository within a number of tokens.
package brain
