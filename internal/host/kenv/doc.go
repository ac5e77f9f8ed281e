// Package kenv reads, and adds to, the environment of FreeBSD's kernel, kenv(2): the
// variables that the loader left, and those that root adds until the next boot. Other systems
// have none.
package kenv
