package config

import (
	_ "embed"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

//go:embed reference.md
var preface string

// Reference returns docs/CONFIGURATION.md: an introduction and a table of every
// setting.
func Reference() string {
	var b strings.Builder
	b.WriteString(preface)
	keys := Schema()
	for _, section := range root().fields {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| Key | Value | Default | Repository | Meaning |\n| --- | --- | --- | --- | --- |\n", section.name, section.doc)
		for _, k := range keys {
			if strings.HasPrefix(k.Key, section.name+".") {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.Key, k.Type, code(k.Default), k.Repository, k.Doc)
			}
		}
	}
	return b.String()
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

const exampleHead = `# Every RocketGPT setting with its default. All are optional: keep the lines that
# you change, and remove the rest. Lines that begin with "#:" are examples of settings
# without a default. docs/CONFIGURATION.md explains the rest.
`

// RenderExample returns examples/rgpt.yaml: every setting with its default and its
// purpose.
func RenderExample() string {
	var b strings.Builder
	b.WriteString(exampleHead)
	defaults := reflect.ValueOf(Default()).Elem()
	for _, section := range root().fields {
		b.WriteString("\n")
		section.write(&b, defaults.FieldByIndex(section.index), "")
	}
	return b.String()
}

// write writes one key with its content.
func (s *spec) write(b *strings.Builder, v reflect.Value, indent string) {
	switch {
	case s.kind == kindSection:
		fmt.Fprintf(b, "%s# %s\n%s%s:\n", indent, s.doc, indent, s.name)
		for _, f := range s.fields {
			f.write(b, v.FieldByIndex(f.index), indent+"  ")
		}
	case s.kind == kindMap && s.elem.kind == kindSection && v.Len() > 0:
		fmt.Fprintf(b, "%s# %s\n%s%s:\n", indent, s.doc, indent, s.name)
		for _, name := range sortedKeys(v) {
			fmt.Fprintf(b, "%s  %s:\n", indent, name)
			for _, f := range s.elem.fields {
				f.write(b, v.MapIndex(reflect.ValueOf(name)).FieldByIndex(f.index), indent+"    ")
			}
		}
	case s.kind == kindFloat && v.Kind() == reflect.Pointer:
		fmt.Fprintf(b, "%s#: %s: 0.2 # %s\n", indent, s.name, s.doc)
	default:
		fmt.Fprintf(b, "%s%s: %s # %s\n", indent, s.name, s.yaml(v), s.doc)
		if s.example != "" {
			fmt.Fprintf(b, "%s#: %s: %s\n", indent, s.name, s.example)
		}
	}
}

func sortedKeys(m reflect.Value) []string {
	var out []string
	for _, k := range m.MapKeys() {
		out = append(out, k.String())
	}
	slices.Sort(out)
	return out
}
