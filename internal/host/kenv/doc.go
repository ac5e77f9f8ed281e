// Package kenv reads and adds to the environment of FreeBSD's kernel, kenv(2): what the
// loader left, and what root adds to it, which is gone at the next start. Other systems
// have none.
package kenv
