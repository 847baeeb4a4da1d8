/* A layer without sources yet still needs one translation unit. */
typedef int clq_empty;
