package vfs

const xattrPrefix = "user."
