// Package xtables runs the iptables programs for the proxiers that write iptables rules: one family and back end at a time
// (Programs), with a wait for the xtables lock, time limits, and errors that name the failing line. It finds out which
// back end a node uses (DetectBackend), and takes a mode's chains out of a node again (Remove).
//
// Package fake is the same without a kernel.
package xtables
