autocmd BufRead,BufNewFile *.tw setfiletype tilewright
