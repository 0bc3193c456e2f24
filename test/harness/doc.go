// Package harness lets tests work with the product as its users do: real
// processes, the command line, a repository on disk. It looks inside (rows,
// histories, files, processes) only to check what must always hold.
package harness
