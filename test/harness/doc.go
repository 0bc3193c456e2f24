// Package harness lets tests use the product as its users do: real processes, the command line, a
// repository on disk. It inspects internals (rows, histories, files, processes) only to check
// invariants.
package harness
